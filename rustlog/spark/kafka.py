"""
L{KafkaClient}: a small blocking client of any Kafka broker.

    with KafkaClient(ClientSettings(bootstrap=(("127.0.0.1", 9092),))) as client:
        ends = client.list_offsets({TopicPartition("orders", 0): LATEST})

Whatever may be tried again is tried again, until the deadline: leaders move, brokers restart.  A client belongs to one
thread at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType

from attrs import frozen

from rustlog.log.batch import Buffer
from rustlog.model import Committed, TopicPartition
from rustlog.spark.encoding import ProducerState
from rustlog.spark.settings import ClientSettings

EARLIEST = -2
LATEST = -1

FETCH_BYTES = 16 * 1024 * 1024


@frozen
class TopicMetadata:
    """A topic as the brokers know it."""

    name: str
    partitions: int
    internal: bool = False


@frozen
class FoundOffset:
    """An answer to L{KafkaClient.list_offsets}; C{offset} is -1 when no record is that young."""

    offset: int
    timestamp: int = -1


@frozen
class Fetched:
    """
    What a fetch brought: batches back to back, the last of which may be cut off.

    @ivar aborted: (producer id, first offset) of transactions that C{read_committed} is not to see.
    """

    data: Buffer
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...] = ()


class KafkaClient:
    """
    See the module.  Every method raises L{BrokerError <rustlog.spark.errors.BrokerError>}:
    C{RequestRefused} when a broker says no for good, C{TopicNotFound}, C{GaveUp} when the deadline has passed.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings

    def topics(self) -> dict[str, TopicMetadata]:
        """All topics, by name."""
        raise NotImplementedError

    def topic(self, name: str) -> TopicMetadata:
        """
        One topic.  It is not created by asking.

        @raise TopicNotFound: there is none.
        """
        raise NotImplementedError

    def create_topic(
        self,
        name: str,
        partitions: int,
        *,
        replication_factor: int = -1,
        config: Mapping[str, str] = {},
        exists_ok: bool = False,
    ) -> None:
        """Create a topic; C{replication_factor=-1} is the broker's default."""
        raise NotImplementedError

    def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        """
        Find offsets: L{EARLIEST}, L{LATEST} (of committed data: the last stable offset is not
        asked for), or the first record at or after a time in milliseconds.
        """
        raise NotImplementedError

    def fetch(
        self,
        partition: TopicPartition,
        offset: int,
        *,
        max_bytes: int = FETCH_BYTES,
        wait_ms: int = 500,
        min_bytes: int = 1,
        read_committed: bool = True,
    ) -> Fetched:
        """
        Batches from the one that has C{offset} on; nothing, after C{wait_ms}, if there is nothing.

        @raise DataLost: the offset is outside of the log.
        """
        raise NotImplementedError

    def init_producer(self) -> ProducerState:
        """A new identity for an idempotent producer; its sequence is 0."""
        raise NotImplementedError

    def produce(self, partition: TopicPartition, data: Buffer, *, acks: int = -1) -> int:
        """
        Append one batch; its base offset, or -1 if the brokers do not tell (it was there already, long ago).

        An idempotent batch (see L{init_producer}) is there exactly once, however often it had to be sent.  Another one is
        only sent again when it certainly did not arrive.
        """
        raise NotImplementedError

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, Committed | int]) -> None:
        """Remember offsets for a group that has no members at work."""
        raise NotImplementedError

    def committed_offsets(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Committed]:
        """What a group has committed; of all partitions, if none are named.  Others are not in the answer."""
        raise NotImplementedError

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete what is before some offsets; where the logs begin now."""
        raise NotImplementedError

    def close(self) -> None:
        """Hang up."""

    def __enter__(self) -> KafkaClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
