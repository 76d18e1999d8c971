"""
What C{kio}'s classes say of their fields.
"""

from __future__ import annotations

from dataclasses import Field, fields, is_dataclass
from struct import Struct
from typing import Any, get_args

NUMBERS = {
    "int8": Struct(">b"),
    "int16": Struct(">h"),
    "int32": Struct(">i"),
    "int64": Struct(">q"),
    "uint8": Struct(">B"),
    "uint16": Struct(">H"),
    "uint32": Struct(">I"),
    "uint64": Struct(">Q"),
    "float64": Struct(">d"),
    "bool": Struct(">?"),
}
"""How numbers are written."""


def array_type(annotation: Any) -> Any:
    """C{tuple[X, ...]}, also out of C{tuple[X, ...] | None}; C{None} if it is not an array."""
    for each in (annotation, *get_args(annotation)):
        if getattr(each, "__origin__", None) is tuple:
            return each
    return None


def item_class(field: Field[Any]) -> type[Any] | None:
    """The class of what a field holds, one or many, if it is not primitive."""
    array = array_type(field.type)
    candidates = get_args(array) if array is not None else (field.type, *get_args(field.type))
    return next((each for each in candidates if is_dataclass(each)), None)  # type: ignore[return-value]


def nested_class(entity_class: type[Any], *names: str) -> type[Any]:
    """The class of what a field holds, or a field of that, and so on."""
    for name in names:
        (field,) = (each for each in fields(entity_class) if each.name == name)
        found = item_class(field)
        assert found is not None, f"{name} has no class of its own"
        entity_class = found
    return entity_class
