"""Plugins for rustlog: stores in SQLite, and a protocol of lines."""
