"""
How to reach brokers, under the names that Spark's users know.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL")


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
    deadline_seconds: float = 120.0
    backoff_seconds: float = 0.1
    backoff_seconds_max: float = 2.0
    is_tls: bool = False
    checks_hostname: bool = True
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> ClientSettings:
        """
        Of the options of a reader or writer: C{kafka.bootstrap.servers} and others that begin with C{kafka.}.
        Spark hands over names in small letters, or as the user wrote them: both are understood.

        @raise BadOption: one is missing, unknown, or makes no sense.
        """
        raise NotImplementedError
