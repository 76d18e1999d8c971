"""Offset stores: plugins behind L{rustlog.interfaces.IOffsetStore}."""
