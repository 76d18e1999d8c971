"""
SmartModules: programs that clients of Fluvio let the server run over records.

There are none here.  A request that has some is read all the same, so that it can be refused by their name::

    invocation => module kind {parameter:String value:String} Option<lookback> (from 20 on)
      module   => 0:u8 name:String | 1:u8 wasm:Vec<u8>
      kind     => 0:u8 (filter) | 1:u8 (map) | 2:u8 (array map) | 3:u8 accumulator:Vec<u8> (aggregate)
                | 4:u8 (filter map) | 5:u8 topic:String (join) | 6:u8 topic:String stream:String (join stream)
                | 7:u8 context (generic)
      context  => 0:u8 | 1:u8 accumulator:Vec<u8> | 2:u8 topic:String | 3:u8 topic:String stream:String
      lookback => last:u64 Option<age:Duration> (from 21 on)
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from rustlog.wire.fluvio.primitives import U8, U64, Reader, Unreadable, Writer

AD_HOC = "ad hoc"
"""What a module is called that a client has brought along."""

_LOOKS_BACK, _KNOWS_AGE = 20, 21

_BYTES, _TEXT = "bytes", "text"
_GENERIC = 7
_OF_KIND: dict[int, tuple[str, ...]] = {
    0: (), 1: (), 2: (), 3: (_BYTES,), 4: (), 5: (_TEXT,), 6: (_TEXT, _TEXT), _GENERIC: (),
}  # fmt: skip
_OF_CONTEXT: dict[int, tuple[str, ...]] = {0: (), 1: (_BYTES,), 2: (_TEXT,), 3: (_TEXT, _TEXT)}


@frozen
class Lookback:
    """From where on records are shown to a module before it begins."""

    last: int
    age: tuple[int, int] | None = None


@frozen
class SmartModule:
    """
    A module that shall be run.

    @ivar wasm: the module itself, if the client has brought it along; else there is a name.
    @ivar context: the number of a generic module's context; C{None} for the other kinds.
    @ivar facts: what the kind, or its context, has.
    """

    name: str = AD_HOC
    wasm: bytes | None = None
    kind: int = 0
    context: int | None = None
    facts: tuple[Any, ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()
    lookback: Lookback | None = None


def read_smart_modules(reader: Reader, version: int) -> tuple[SmartModule, ...]:
    return reader.vector(lambda: _read_one(reader, version))


def _read_one(reader: Reader, version: int) -> SmartModule:
    name, wasm = _read_module(reader)
    kind, context = reader.number(U8), None
    layouts = _known(_OF_KIND, kind)
    if kind == _GENERIC:
        context = reader.number(U8)
        layouts = _known(_OF_CONTEXT, context)
    facts = tuple([reader.blob() if each is _BYTES else reader.string() for each in layouts])
    parameters = reader.mapping(reader.string, reader.string)
    lookback = reader.option(lambda: _read_lookback(reader, version)) if version >= _LOOKS_BACK else None
    return SmartModule(name, wasm, kind, context, facts, parameters, lookback)


def _read_module(reader: Reader) -> tuple[str, bytes | None]:
    tag = reader.number(U8)
    if tag == 0:
        return reader.string(), None
    if tag == 1:
        return AD_HOC, reader.blob()
    raise Unreadable(f"{tag} is not a way to tell a module")


def _known(layouts: dict[int, tuple[str, ...]], kind: int) -> tuple[str, ...]:
    if kind not in layouts:
        raise Unreadable(f"{kind} is not a kind of module")
    return layouts[kind]


def _read_lookback(reader: Reader, version: int) -> Lookback:
    last = reader.number(U64)
    return Lookback(last, reader.option(reader.duration) if version >= _KNOWS_AGE else None)


def write_smart_modules(writer: Writer, version: int, modules: tuple[SmartModule, ...]) -> None:
    writer.vector(modules, lambda each: _write_one(writer, version, each))


def _write_one(writer: Writer, version: int, module: SmartModule) -> None:
    if module.wasm is None:
        writer.pack(U8, 0)
        writer.string(module.name)
    else:
        writer.pack(U8, 1)
        writer.blob(module.wasm)
    writer.pack(U8, module.kind)
    if module.context is not None:
        writer.pack(U8, module.context)
    for fact in module.facts:
        if isinstance(fact, str):
            writer.string(fact)
        else:
            writer.blob(fact)
    writer.mapping(module.parameters, writer.string, writer.string)
    if version >= _LOOKS_BACK:
        writer.option(module.lookback, lambda value: _write_lookback(writer, version, value))


def _write_lookback(writer: Writer, version: int, lookback: Lookback) -> None:
    writer.pack(U64, lookback.last)
    if version >= _KNOWS_AGE:
        writer.option(lookback.age, writer.duration)
