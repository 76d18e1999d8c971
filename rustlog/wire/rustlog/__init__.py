"""RustLog's own protocol: JSON in length-prefixed frames."""
