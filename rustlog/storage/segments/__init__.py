"""The C{segments} store: a durable log in files."""
