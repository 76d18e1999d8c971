"""Log stores: plugins behind L{rustlog.interfaces.ILogStore}."""
