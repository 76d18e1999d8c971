"""
L{Connection}: one broker, one request at a time.

Which version of a request is sent depends on what the broker offers, which it is asked first.  The messages
are those of L{rustlog.wire.kafka.schema}.
"""

from __future__ import annotations

import select
import socket
import ssl
from contextlib import suppress
from struct import Struct
from typing import Any

from attrs import frozen

from rustlog.environment.pace import Pace
from rustlog.spark.errors import BadOption, ConnectionFailed, ConnectionLost, NotUnderstood
from rustlog.spark.settings import ClientSettings
from rustlog.wire.kafka.headers import encode_header
from rustlog.wire.kafka.schema import (
    Entity,
    Unreadable,
    decode,
    encode,
    is_flexible,
    make,
    request_class,
    response_class,
    response_header_version,
)

FRAME_BYTES_MAX = 512 * 1024 * 1024
"""What claims to be more is no answer: four bytes of text in its place are a larger number."""

_PIECE_BYTES = 4 * 1024 * 1024
_I32 = Struct(">i")
_CODE = Struct(">ih")  # correlation id and error code: how every answer to ApiVersions begins
_UNSUPPORTED_VERSION = 35


@frozen
class Api:
    """A kind of request: its versions from C{lowest} to C{highest} are understood here."""

    name: str
    key: int
    lowest: int
    highest: int


# From version 13 on, Produce and Fetch name topics by ids; later OffsetFetch asks for many groups at once.
PRODUCE = Api("Produce", 0, 3, 12)
FETCH = Api("Fetch", 1, 4, 12)
LIST_OFFSETS = Api("ListOffsets", 2, 2, 7)
METADATA = Api("Metadata", 3, 4, 12)
OFFSET_COMMIT = Api("OffsetCommit", 8, 2, 8)
OFFSET_FETCH = Api("OffsetFetch", 9, 2, 7)
FIND_COORDINATOR = Api("FindCoordinator", 10, 0, 3)
API_VERSIONS = Api("ApiVersions", 18, 0, 3)
CREATE_TOPICS = Api("CreateTopics", 19, 2, 7)
DELETE_RECORDS = Api("DeleteRecords", 21, 0, 2)
INIT_PRODUCER_ID = Api("InitProducerId", 22, 0, 4)


class Connection:
    """
    A socket to a broker.  After any error it is of no more use.

    @raise ConnectionFailed: nobody is there.
    @raise NotUnderstood: it is no Kafka broker.
    """

    def __init__(self, host: str, port: int, settings: ClientSettings, pace: Pace) -> None:
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._settings = settings
        self._pace = pace
        self._correlation_id = 0
        self._socket = _open(host, port, self.address, settings)
        try:
            self._offered = self._ask_for_versions()
        except BaseException:
            self.close()
            raise

    def version_of(self, api: Api) -> int:
        """
        The highest version that both sides know.

        @raise NotUnderstood: there is none.
        """
        lowest, highest = self._offered.get(api.key, (0, -1))
        version = min(highest, api.highest)
        if version < max(lowest, api.lowest):
            offers = f"versions {lowest} to {highest}" if highest >= 0 else "none"
            needed = f"one of {api.lowest} to {api.highest} is needed"
            raise NotUnderstood(self.address, f"of {api.name}, it offers {offers}; {needed}")
        return version

    def ask(self, api: Api, /, *, waits_ms: int = 0, **fields: Any) -> Entity:
        """
        Send a request, made of the fields that its version has; the response.

        @param waits_ms: how long the broker was asked to wait before it answers.
        @raise ConnectionLost: it did not come.
        @raise NotUnderstood: what came is something else.
        """
        version = self.version_of(api)
        answer = self._exchange(api, version, fields, waits_ms)
        return self._decode(api, version, answer)

    def is_gone(self) -> bool:
        """Whether the broker has hung up already, as far as that can be seen: nothing else comes unasked."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Hang up."""
        with suppress(OSError):
            self._socket.close()

    # -- how it is done --

    def _ask_for_versions(self) -> dict[int, tuple[int, int]]:
        fields = {"client_software_name": "rustlog-spark", "client_software_version": "1"}
        version = API_VERSIONS.highest
        answer = self._exchange(API_VERSIONS, version, fields, 0)
        if len(answer) >= _CODE.size and _CODE.unpack_from(answer)[1] == _UNSUPPORTED_VERSION:
            version = 0
            answer = self._exchange(API_VERSIONS, version, fields, 0)
        response = self._decode(API_VERSIONS, version, answer)
        return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}

    def _decode(self, api: Api, version: int, answer: bytearray) -> Entity:
        try:
            begins = _body_begins(api, version, answer)
            return decode(response_class(api.key, version), answer, begins)
        except (Unreadable, IndexError) as error:
            raise NotUnderstood(self.address, f"the answer to {api.name} can not be read: {error}") from None

    def _exchange(self, api: Api, version: int, fields: dict[str, Any], waits_ms: int) -> bytearray:
        self._correlation_id += 1
        key, client_id = api.key, self._settings.client_id
        body = encode(make(request_class(key, version), **fields))
        header = encode_header(key, version, self._correlation_id, client_id, is_flexible(key, version))
        seconds = self._settings.request_seconds + waits_ms / 1000
        deadline = self._pace.monotonic() + seconds
        try:
            self._limit(deadline)
            self._socket.sendall(b"%b%b%b" % (_I32.pack(len(header) + len(body)), header, body))
            answer = self._receive(deadline)
        except TimeoutError:
            raise ConnectionLost(self.address, api.name, f"nothing came within {seconds:g} seconds") from None
        except OSError as error:
            raise ConnectionLost(self.address, api.name, _reason(error)) from None
        if _I32.unpack_from(answer)[0] != self._correlation_id:
            raise NotUnderstood(self.address, f"the answer to {api.name} belongs to another request")
        return answer

    def _receive(self, deadline: float) -> bytearray:
        (size,) = _I32.unpack(self._read(_I32.size, deadline))
        if not _I32.size <= size <= FRAME_BYTES_MAX:
            raise NotUnderstood(self.address, f"it answers with a frame of {size} bytes")
        return self._read(size, deadline)

    def _read(self, size: int, deadline: float) -> bytearray:
        data = bytearray(size)
        view, position = memoryview(data), 0
        while position < size:
            self._limit(deadline)
            count = self._socket.recv_into(view[position : position + _PIECE_BYTES])
            if not count:
                raise ConnectionResetError("the broker has closed the connection")
            position += count
        return data

    def _limit(self, deadline: float) -> None:
        seconds = deadline - self._pace.monotonic()
        if seconds <= 0:
            raise TimeoutError
        self._socket.settimeout(seconds)


def _body_begins(api: Api, version: int, answer: bytearray) -> int:
    """Behind the correlation id and, in flexible versions, tags, of which brokers send none."""
    if not response_header_version(api.key, version):
        return _I32.size
    if answer[_I32.size]:
        raise Unreadable("its header has tags")
    return _I32.size + 1


def _open(host: str, port: int, address: str, settings: ClientSettings) -> socket.socket:
    try:
        connection = socket.create_connection((host, port), settings.request_seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise ConnectionFailed(address, _reason(error)) from None
    if not settings.is_tls:
        return connection
    try:
        return _tls_context(settings).wrap_socket(connection, server_hostname=host)
    except OSError as error:
        connection.close()
        raise ConnectionFailed(address, f"TLS: {_reason(error)}") from None


def _tls_context(settings: ClientSettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
        if settings.certificate_file is not None:
            context.load_cert_chain(settings.certificate_file, settings.key_file, settings.key_password)
    except OSError as error:
        files = settings.ca_file, settings.certificate_file, settings.key_file
        reason = f"{', '.join(each for each in files if each)}: {_reason(error)}; PEM files are needed"
        raise BadOption("kafka.ssl", reason) from None
    context.check_hostname = settings.checks_hostname
    return context


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
