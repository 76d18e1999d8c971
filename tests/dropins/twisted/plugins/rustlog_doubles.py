"""Declares the stand-ins of L{tests.doubles}."""

from rustlog.plugins import LogStoreFactory, WireProtocol

_MEMORY = "rustlog.storage.memory.MemorySettings"

picky = LogStoreFactory(
    "picky", "Has many settings.", opener="tests.doubles.open_picky", settings="tests.doubles.PickySettings"
)
refusing = LogStoreFactory(
    "refusing", "Never opens.", opener="tests.doubles.open_refusing", settings=_MEMORY
)
refusing_later = LogStoreFactory(
    "refusing-later",
    "Takes its time not to open.",
    opener="tests.doubles.open_refusing_later",
    settings=_MEMORY,
)
defective = LogStoreFactory(
    "defective", "Has a defect.", opener="tests.doubles.open_defective", settings=_MEMORY
)
slow = LogStoreFactory("slow", "Opens in an hour.", opener="tests.doubles.open_slow", settings=_MEMORY)
missing = LogStoreFactory(
    "missing", "Is not all there.", opener="tests.nowhere.open_store", settings="tests.nowhere.Settings"
)
twin = LogStoreFactory("twin", "One of two.", opener="tests.doubles.open_picky", settings=_MEMORY)
other_twin = LogStoreFactory("twin", "The other.", opener="tests.doubles.open_picky", settings=_MEMORY)

echo = WireProtocol(
    "echo", "Says what it hears.", maker="tests.doubles.make_echo", settings="tests.doubles.EchoSettings"
)
