"""Tests for L{rustlog.wire.fluvio.objects}, and for the messages about them in C{controller}."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from rustlog.wire.fluvio.apis import CREATE, DELETE, LIST, WATCH, Api
from rustlog.wire.fluvio.codec import decode_request, decode_response, encode_request, encode_response
from rustlog.wire.fluvio.controller import (
    Change,
    ChangeKind,
    CreateRequest,
    DeleteRequest,
    ListRequest,
    ListResponse,
    Status,
    WatchRequest,
    WatchResponse,
)
from rustlog.wire.fluvio.errors import TOPIC_ALREADY_EXISTS
from rustlog.wire.fluvio.objects import PARTITION, SPU, TOPIC, Metadata
from rustlog.wire.fluvio.partitions import (
    PartitionResolution,
    PartitionSpec,
    PartitionStatus,
    ReplicaStatus,
    partition_name,
)
from rustlog.wire.fluvio.primitives import Unreadable, Writer
from rustlog.wire.fluvio.replicas import Compression, Deduplication, HomeMirror, RemoteMirror, Storage
from rustlog.wire.fluvio.spus import Endpoint, Ingress, PublicEndpoint, SpuSpec, SpuStatus
from rustlog.wire.fluvio.topics import (
    AssignedPartition,
    AssignedReplicas,
    ComputedReplicas,
    MirroredReplicas,
    TopicResolution,
    TopicSpec,
    TopicStatus,
)

REMOTE = RemoteMirror("home", "spu", 7, "host:1", True)
HOME = HomeMirror("remote", "r-0", True)
SPEC = TopicSpec(
    AssignedReplicas((AssignedPartition(0, (1, 2), REMOTE), AssignedPartition(1, (), HOME))),
    3600,
    Storage(1000, 2**40),
    Compression.ZSTD,
    Deduplication(5, (1, 2), "filter", (("a", "b"),)),
    True,
)
TOPIC_OBJECT = Metadata(
    "orders", SPEC, TopicStatus(TopicResolution.PENDING, ((0, (1, 2)),), ((0, REMOTE), (1, HOME)), "because")
)
PARTITION_OBJECT = Metadata(
    partition_name("orders", 3),
    PartitionSpec(1, (1, 2), 60, Storage(None, 5), Compression.LZ4, SPEC.deduplication, True, HOME),
    PartitionStatus(
        ReplicaStatus(1, 5, 6), PartitionResolution.OFFLINE, 2, (ReplicaStatus(2),), 99, True, 4
    ),
)
SPU_OBJECT = Metadata(
    "spu-1",
    SpuSpec(
        1,
        PublicEndpoint(9010, (Ingress("a", None), Ingress(None, "127.0.0.1"))),
        Endpoint(9011, "b"),
        rack="r",
        public_local=Endpoint(1, "c"),
    ),
    SpuStatus(),
)


class RoundTripTests(SynchronousTestCase):
    """What is written in the newest version comes back as it was."""

    def asked(self, api: Api, version: int, request: Any) -> Any:
        return decode_request(api, version, encode_request(api, version, request), 0)

    def answered(self, api: Api, version: int, response: Any) -> Any:
        answer = encode_response(api, version, response)
        assert isinstance(answer, bytes)
        return decode_response(api, version, answer)

    def test_requests(self) -> None:
        """Requests."""
        for api, request in {
            WATCH: WatchRequest(TOPIC, 5, True),
            CREATE: CreateRequest(TOPIC, "orders", SPEC, True, 500),
            DELETE: DeleteRequest(TOPIC, "orders", True),
            LIST: ListRequest(PARTITION, ("a", "b"), True, True),
        }.items():
            self.assertEqual(self.asked(api, 19, request), request)

    def test_answers(self) -> None:
        """Answers, with all kinds of objects in them."""
        for label, each in ((TOPIC, TOPIC_OBJECT), (PARTITION, PARTITION_OBJECT), (SPU, SPU_OBJECT)):
            watched = WatchResponse(label, 3, (Change(ChangeKind.DELETE, each),), (each, each))
            self.assertEqual(self.answered(WATCH, 19, watched), watched)
            listed = ListResponse(label, (each,))
            self.assertEqual(self.answered(LIST, 19, listed), listed)
        status = Status("orders", TOPIC_ALREADY_EXISTS, "it is there")
        self.assertEqual(self.answered(CREATE, 19, status), status)

    def test_versions(self) -> None:
        """In each version, what it has no place for is as if it had not been said."""
        sizes = {}
        for version in CREATE.accepted:
            encoded = encode_request(CREATE, version, CreateRequest(TOPIC, "orders", SPEC))
            sizes[version] = len(encoded)
            spec = decode_request(CREATE, version, encoded, 0).spec
            self.assertEqual(spec.storage, SPEC.storage)
            self.assertEqual(spec.deduplication, SPEC.deduplication if version >= 12 else None)
            self.assertEqual(spec.system, version >= 13)
            mirrors = [each.mirror for each in spec.replicas.partitions]
            self.assertEqual([each is not None for each in mirrors], [version >= 14] * 2)
            if version >= 14:
                self.assertEqual(mirrors[0].target, version >= 18)
        self.assertEqual(sorted(sizes.values()), list(sizes.values()))
        old, new = (self.answered(WATCH, each, WatchResponse(PARTITION, 1, (), (PARTITION_OBJECT,)))
                    for each in (15, 16))  # fmt: skip
        self.assertEqual((old.all[0].status.base_offset, new.all[0].status.base_offset), (0, 4))


class OtherObjectTests(SynchronousTestCase):
    """What there are no objects of, and what is not offered, can be refused by its name."""

    def typed(self, label: str, content: bytes) -> bytes:
        writer = Writer()
        writer.string(label)
        writer.blob(content)
        return writer.whole()

    def test_create(self) -> None:
        """What shall be created has a name before anything that only its kind knows."""
        request = decode_request(CREATE, 19, self.typed("SmartModule", b"\0\x01m\0\0 and so on"), 0)
        self.assertEqual(request, CreateRequest("SmartModule", "m", None))

    def test_delete(self) -> None:
        """Some are deleted by a name, some are not."""
        request = decode_request(DELETE, 19, self.typed("SmartModule", b"\0\x01m\0"), 0)
        self.assertEqual(request, DeleteRequest("SmartModule", "m"))
        request = decode_request(DELETE, 19, self.typed("CustomSpu", b"\x01\0\0\0\x05"), 0)
        self.assertEqual(request, DeleteRequest("CustomSpu", ""))

    def test_empty_lists(self) -> None:
        """An empty list can be given of everything."""
        answer = encode_response(LIST, 19, ListResponse("SmartModule", ()))
        self.assertEqual(answer, self.typed("SmartModule", bytes(4)))

    def test_mirrors(self) -> None:
        """A mirrored topic is recognised, whatever is said about it."""
        content = b"\0\x01t\0\0\x02 whatever it is"
        request = decode_request(CREATE, 19, self.typed(TOPIC, content), 0)
        self.assertEqual(request.spec, TopicSpec(MirroredReplicas()))
        with self.assertRaises(Unreadable):
            decode_request(CREATE, 13, self.typed(TOPIC, content), 0)

    def test_nonsense(self) -> None:
        """Content that is not of its label is refused."""
        computed = "01 00000001 00000001 00 00 00"
        for spec in ("", "03", "00 ff", f"{computed} 06 00 00", f"{computed} 04 00 02"):
            content = b"\0\x01t\0\0" + bytes.fromhex(spec)
            with self.assertRaises(Unreadable):
                decode_request(CREATE, 19, self.typed(TOPIC, content), 0)
        with self.assertRaises(Unreadable):
            decode_request(WATCH, 19, self.typed(TOPIC, bytes(9) + b"\0"), 0)


class FilterTests(SynchronousTestCase):
    def test_wants(self) -> None:
        """A filter is a part of a name; without one, all fit."""
        self.assertTrue(ListRequest(TOPIC).wants("orders"))
        self.assertTrue(ListRequest(TOPIC, ("x", "der")).wants("orders"))
        self.assertFalse(ListRequest(TOPIC, ("x",)).wants("orders"))

    def test_computed(self) -> None:
        """A topic of so many partitions has nothing else unless that is said."""
        self.assertEqual(ComputedReplicas(3), ComputedReplicas(3, 1, False))
