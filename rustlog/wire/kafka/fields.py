"""
What the annotations of C{kio}'s classes say of their fields.
"""

from __future__ import annotations

from dataclasses import Field, is_dataclass
from typing import Any, get_args


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
