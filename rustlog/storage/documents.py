"""
Small JSON documents that are replaced as a whole and never seen half written.

A document is written under a temporary name, synced, renamed, and its directory
synced: after a crash either the old or the new one is there.  The member C{crc32c}
covers all the others, so that a damaged one is told from a right one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import orjson
from crc32c import crc32c

if TYPE_CHECKING:
    from rustlog.interfaces import IFiles

TEMPORARY_SUFFIX = "~"
_CHECKSUM = "crc32c"


class DamagedDocument(ValueError):
    """The file is not the document that was written."""


def write_documents(files: IFiles, documents: Mapping[PurePath, Mapping[str, Any]]) -> None:
    """Replace all of them; when this returns they are durable.  Blocks."""
    opened = []
    try:
        for path, members in documents.items():
            files.make_directory(path.parent)
            file = files.open(_temporary(path), create=True)
            opened.append(file)
            file.truncate(0)
            file.append([encode_document(members)])
        for error in files.sync_many(opened).values():
            raise error
    finally:
        for file in opened:
            file.close()
    for path in documents:
        files.rename(_temporary(path), path)
    for directory in {path.parent for path in documents}:
        # The entry of the directory itself may be new as well.
        files.sync_directory(directory)
        files.sync_directory(directory.parent)


def read_document(files: IFiles, path: PurePath) -> dict[str, Any] | None:
    """
    What was written, or C{None} when nothing ever was.

    @raise DamagedDocument: it does not parse, or its checksum is wrong.
    """
    if not files.exists(path):
        return None
    file = files.open(path)
    try:
        content = file.read(0, file.size)
    finally:
        file.close()
    return decode_document(path, content)


def _temporary(path: PurePath) -> PurePath:
    return path.with_name(path.name + TEMPORARY_SUFFIX)


def encode_document(members: Mapping[str, Any]) -> bytes:
    """The content of a file that says this."""
    checksum = crc32c(orjson.dumps(members))
    return orjson.dumps({**members, _CHECKSUM: checksum}, option=orjson.OPT_INDENT_2) + b"\n"


def decode_document(path: PurePath, content: bytes) -> dict[str, Any]:
    """
    What the content of a file says.

    @raise DamagedDocument: it does not parse, or its checksum is wrong.
    """
    try:
        members = orjson.loads(content)
        checksum = members.pop(_CHECKSUM)
    except (ValueError, AttributeError, KeyError, TypeError) as problem:
        raise DamagedDocument(f"{path} is not a document of this store: {problem}") from None
    if crc32c(orjson.dumps(members)) != checksum:
        raise DamagedDocument(f"{path} is damaged: its checksum does not match")
    return dict(members)
