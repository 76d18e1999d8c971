"""Tests for L{rustlog.errors}."""

from __future__ import annotations

import copy

from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from rustlog import errors
from rustlog.errors import RequestRefused, RustlogError, StartupError, StorageFailed, TryAgain
from rustlog.model import TopicPartition

SENTENCES = {
    errors.PartitionNotFound("orders", 99): "partition not found: topic=orders, partition=99",
    errors.TopicNotFound("orders"): "topic not found: orders",
    errors.TopicExists("orders"): "topic exists already: orders",
    errors.InvalidTopicName("a b", "no"): "invalid topic name 'a b': no",
    errors.TopicIsInternal("__own"): "topic is internal: __own",
    errors.InvalidPartitionCount("0 is none"): "invalid partition count: 0 is none",
    errors.InvalidSetting("segment.ms", "no"): "invalid setting segment.ms: no",
    errors.InvalidGroup("it is empty"): "invalid group id: it is empty",
    errors.GroupNotFound("g"): "group not found: g",
    errors.OffsetOutOfRange(7, 8, 9): "offset out of range: 7 is not within 8..9",
    errors.RecordTooLarge(10, 9): "record batch of 10 bytes exceeds max.message.bytes=9",
    errors.InvalidRecord("no"): "invalid record: no",
    errors.CorruptBatch("no"): "corrupt record batch: no",
    errors.OutOfOrderSequence(1, 2, 3): "out of order sequence: producer 1 sent 3, expected 2",
    errors.StaleProducerEpoch(1, 2, 3): "stale producer epoch: producer 1 sent epoch 2, current is 3",
    errors.StaleGeneration("g", 4): "stale generation 4 of group g",
    errors.UnknownMember("g", "m"): "unknown member 'm' of group g",
    errors.MemberIdRequired("g", "m"): "join group g again, with the member id 'm'",
    errors.FencedInstance("g", "i"): "another member of group g has the group.instance.id 'i' now",
    errors.InconsistentProtocol("g"): "the members of group g have another protocol, or none in common",
    errors.InvalidSessionTimeout(1, 2, 3): "invalid session timeout: 1 ms are not within 2..3",
    errors.GroupFull("g", "no"): "group g is full: no",
    errors.GroupNotEmpty("g"): "group g has members",
    errors.GroupReadsTopic("g", "t"): "members of group g read t",
    errors.CommitMetadataTooLarge(5, 4): "metadata of 5 bytes exceeds offset.metadata.max.bytes=4",
    errors.RebalanceInProgress("g"): "group g is rebalancing",
    errors.NotCoordinator("g"): "group g is not looked after here",
    errors.CoordinatorNotAvailable("g", "no"): "group g is not available: no",
    errors.VersionConflict("g", 1, 2): "group g is at version 2, not 1",
    errors.NotHeldByStore("headers"): "this store cannot hold headers",
    errors.StorageFull(): "no space left on the storage device",
    errors.PartitionFenced(TopicPartition("t", 0), "no"): "partition t-0 is fenced: no",
    errors.DamagedLog(TopicPartition("t", 0), 5, "no"): "damaged log: t-0 at offset 5: no",
    errors.Closed(): "the store is closed",
    StartupError("the directory is locked"): "the directory is locked",
}
GROUPS = (RequestRefused, TryAgain, StorageFailed, StartupError)


class ErrorTests(SynchronousTestCase):
    """The tree of errors."""

    def test_sentences(self) -> None:
        """Every error says what happened, in words that a client may be shown."""
        self.assertEqual({error: str(error) for error in SENTENCES}, SENTENCES)

    def test_nothing_is_left_out(self) -> None:
        """Every error of the module is looked at here."""
        named = {
            each
            for each in vars(errors).values()
            if isinstance(each, type) and issubclass(each, RustlogError)
        }
        groups = {RustlogError, RequestRefused, TryAgain, StorageFailed}
        self.assertEqual({type(error) for error in SENTENCES}, named - groups)

    def test_groups(self) -> None:
        """Every error says what the caller may do: change the request, try again, call for help."""
        for error in SENTENCES:
            self.assertEqual(sum(isinstance(error, group) for group in GROUPS), 1, error)

    def test_facts(self) -> None:
        """The facts are there as fields, for those who want more than a sentence."""
        error = errors.OffsetOutOfRange(requested=7, log_start_offset=8, high_watermark=9)
        self.assertEqual((error.requested, error.log_start_offset, error.high_watermark), (7, 8, 9))
        self.assertEqual(error.args, (7, 8, 9))

    def test_identity(self) -> None:
        """Two errors that say the same are still two."""
        self.assertNotEqual(errors.TopicNotFound("a"), errors.TopicNotFound("a"))

    def test_raised_and_caught(self) -> None:
        """Errors can be raised, wrapped, explained and copied like any exception."""
        for error in SENTENCES:
            try:
                raise error from ValueError("why")
            except RustlogError:
                failure = Failure()
            self.assertIs(failure.value, error)
            self.assertIn(str(error), failure.getTraceback())
            failure.cleanFailure()
            self.assertIsInstance(error.__cause__, ValueError)
            self.assertEqual(str(copy.copy(error)), str(error))

    def test_long_names(self) -> None:
        """A topic name of a megabyte does not become an error message of a megabyte."""
        self.assertLess(len(str(errors.InvalidTopicName("x" * 2**20, "it is too long"))), 400)
