from rustlog.plugins import LogStoreFactory, OffsetStoreFactory, WireProtocol

shelf_store = LogStoreFactory(
    "shelf",
    "Keeps the log in an SQLite database in the data directory.",
    opener="rustlog_shelf.store.open_store",
    settings="rustlog_shelf.store.ShelfSettings",
)

shelf_offsets = OffsetStoreFactory(
    "shelf",
    "Keeps the offsets of consumer groups in an SQLite database in the data directory.",
    opener="rustlog_shelf.offsets.open_store",
    settings="rustlog_shelf.offsets.ShelfOffsetsSettings",
)

lines_protocol = WireProtocol(
    "lines",
    "Commands in lines of text, for people with a terminal.",
    maker="rustlog_shelf.lines.make_factory",
    settings="rustlog_shelf.lines.LinesSettings",
)
