"""HTTP: metrics, health and a look at what there is; for operators and their tools."""
