"""rustlog: a log broker for Twisted, with stores and protocols as plugins."""

__version__ = "0.1.0"
