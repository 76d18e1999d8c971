"""
The conversation on the reference page of the RustLog protocol, for tests that have it with a broker.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "rustlog-protocol.md"
AND_MORE = "…"
"""A key that stands for all that is left out."""

_EXAMPLE = re.compile(
    r"^```(json|hex) request\n(.*?)^```\n\n^```\1 response\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
_REFUSAL = re.compile(r"^\| `(\{.*?\})` \| `(.*)` \|$", re.MULTILINE)
_DIFFERS = {"id", "commit_time", "size", "segments", "version"}
"""What no two brokers have alike."""


def conversation() -> Iterator[tuple[bytes, bytes]]:
    """Payloads of requests and of their responses, in the order of the page; either JSON or binary."""
    text = PAGE.read_text("utf-8")
    found = [(match.start(), _payloads(*match.groups())) for match in _EXAMPLE.finditer(text)]
    for match in _REFUSAL.finditer(text):
        refusal = json.dumps({"Error": {"message": match[2]}}).encode()
        found.append((match.start(), (match[1].encode(), refusal)))
    for _, pair in sorted(found):
        yield pair


def _payloads(kind: str, request: str, response: str) -> tuple[bytes, bytes]:
    if kind == "hex":
        return bytes.fromhex(request), bytes.fromhex(response)
    return request.encode(), response.encode()


def is_same(expected: bytes, answer: bytes) -> bool:
    """Whether an answer is the one on the page, but for what no two brokers have alike."""
    if not expected.startswith(b"{"):
        return expected == answer
    return _is_same(json.loads(expected), json.loads(answer))


def _is_same(expected: Any, found: Any) -> bool:
    if isinstance(expected, list):
        return isinstance(found, list) and len(expected) == len(found) and all(map(_is_same, expected, found))
    if not isinstance(expected, dict) or not isinstance(found, dict):
        return bool(expected == found) and type(expected) is type(found)
    wanted = [each for each in expected if each != AND_MORE]
    if wanted != [each for each in found if AND_MORE not in expected or each in wanted]:
        return False
    return all(
        type(expected[each]) is type(found[each])
        if each in _DIFFERS
        else _is_same(expected[each], found[each])
        for each in wanted
    )
