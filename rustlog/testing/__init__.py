"""For authors of plugins and of tests: contract suites, a simulated environment, wrappers."""
