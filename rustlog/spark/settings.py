"""
How to reach brokers, under the names that Spark's users know.

    =============================================  ==========================================================
    kafka.bootstrap.servers                        C{host:port,host:port}; needed
    kafka.client.id                                what brokers call us in their logs
    kafka.request.timeout.ms                       how long an answer may take
    kafka.default.api.timeout.ms                   how long a call may take, with all that is tried again
    kafka.retry.backoff.ms                         how long to wait before the second attempt
    kafka.security.protocol                        PLAINTEXT or SSL
    kafka.ssl.truststore.location                  PEM file of certificates to trust; also
                                                   C{kafka.ssl.ca.location}
    kafka.ssl.keystore.location                    PEM file of our own certificate; also
                                                   C{kafka.ssl.certificate.location}
    kafka.ssl.key.location                         PEM file of its key, unless that is in the file above
    kafka.ssl.key.password                         of that key
    kafka.ssl.endpoint.identification.algorithm    empty: the name in the broker's certificate is not compared
    =============================================  ==========================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from attrs import frozen

from rustlog.spark.errors import BadOption

PREFIX = "kafka."
BOOTSTRAP = "kafka.bootstrap.servers"

_DEFAULT_PORT = 9092
_HOST_PORT = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]\s]+))(?::(?P<port>\d+))?")
_PROTOCOLS = ("PLAINTEXT", "SSL")


@frozen(kw_only=True)
class ClientSettings:
    """
    What a L{KafkaClient <rustlog.spark.kafka.KafkaClient>} needs to know; can be pickled.

    @ivar bootstrap: C{(host, port)} of some brokers.
    @ivar request_seconds: how long an answer may take.
    @ivar deadline_seconds: how long a call may take in all, with what is tried again.
    @ivar ca_file: PEM file of certificates to trust; C{None}: those of the system.
    @ivar certificate_file: PEM file of a client's own certificate (and its key, unless C{key_file} has that).
    """

    bootstrap: tuple[tuple[str, int], ...]
    client_id: str = "rustlog-spark"
    request_seconds: float = 30.0
    deadline_seconds: float = 60.0
    backoff_seconds: float = 0.1
    backoff_seconds_max: float = 2.0
    is_tls: bool = False
    checks_hostname: bool = True
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, str], also: Collection[str] = ()) -> ClientSettings:
        """
        Of the options of a reader or writer; those that do not begin with C{kafka.} are not looked at.  Names
        are the same in small and in large letters.

        @param also: names that begin with C{kafka.} and have a meaning elsewhere.
        @raise BadOption: one is missing, unknown, or makes no sense.
        """
        given = {name.lower(): value for name, value in options.items() if name.lower().startswith(PREFIX)}
        if BOOTSTRAP not in given:
            raise BadOption(BOOTSTRAP, "it is needed, like 127.0.0.1:9092")
        known = FIELDS.keys() | {BOOTSTRAP, _PROTOCOL, _IDENTIFICATION}
        for name in given.keys() - known - {each.lower() for each in also}:
            raise BadOption(name, f"it is not known here; {', '.join(sorted(known))} are")
        fields: dict[str, Any] = {
            FIELDS[name][0]: FIELDS[name][1](name, given[name]) for name in FIELDS if name in given
        }
        return cls(
            bootstrap=parse_bootstrap(given[BOOTSTRAP]),
            is_tls=_is_tls(given.get(_PROTOCOL, "PLAINTEXT")),
            checks_hostname=given.get(_IDENTIFICATION, "https") != "",
            **fields,
        )


def parse_bootstrap(text: str) -> tuple[tuple[str, int], ...]:
    """
    Read C{host:port,host:port}; a port that is not given is 9092.

    @raise BadOption: it is something else.
    """
    found = []
    for part in text.split(","):
        match = _HOST_PORT.fullmatch(part.strip())
        port = int(match["port"] or _DEFAULT_PORT) if match is not None else 0
        if match is None or not 0 < port < 2**16:
            raise BadOption(BOOTSTRAP, f"{part.strip()!r} is not an address like 127.0.0.1:9092")
        found.append((match["v6"] or match["host"], port))
    return tuple(found)


def _is_tls(protocol: str) -> bool:
    if protocol.upper() not in _PROTOCOLS:
        raise BadOption(_PROTOCOL, f"{protocol} is not supported; {' and '.join(_PROTOCOLS)} are")
    return protocol.upper() == "SSL"


def _text(name: str, value: str) -> str:
    return value


def _seconds(name: str, value: str) -> float:
    if not value.isascii() or not value.isdigit() or not int(value):
        raise BadOption(name, f"{value!r} is not a number of milliseconds")
    return int(value) / 1000


_PROTOCOL = "kafka.security.protocol"
_IDENTIFICATION = "kafka.ssl.endpoint.identification.algorithm"
FIELDS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "kafka.client.id": ("client_id", _text),
    "kafka.request.timeout.ms": ("request_seconds", _seconds),
    "kafka.default.api.timeout.ms": ("deadline_seconds", _seconds),
    "kafka.retry.backoff.ms": ("backoff_seconds", _seconds),
    "kafka.ssl.truststore.location": ("ca_file", _text),
    "kafka.ssl.ca.location": ("ca_file", _text),
    "kafka.ssl.keystore.location": ("certificate_file", _text),
    "kafka.ssl.certificate.location": ("certificate_file", _text),
    "kafka.ssl.key.location": ("key_file", _text),
    "kafka.ssl.key.password": ("key_password", _text),
}
"""Options that are fields of L{ClientSettings}, and how they are read."""
