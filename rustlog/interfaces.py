"""
Every public contract of rustlog.

A plugin author implements L{ILogStore}, L{IOffsetStore} or L{IWireProtocol} and
declares a cheap factory for it in a C{twisted/plugins} dropin; L{rustlog.testing}
has a contract suite for the first two.  This module is imported by every C{twistd}
run on the machine (Twisted's plugin cache refers to it): it imports nothing but
zope.interface and C{IPlugin}.

B{Value or Deferred.}  L{ILogStore.append} and L{ILogStore.read} return either a
plain value or a Deferred of it, because a Deferred per call costs more than
the call; L{rustlog.results} has the helpers that consume both.  All
other methods that may touch a disk or a network return Deferreds.

B{Errors} are those of L{rustlog.errors}.  C{append} and C{read} put an error in the
place of the result of the one partition it concerns, so that others succeed.
"""

from twisted.plugin import IPlugin
from zope.interface import Attribute, Interface

# -- plugins ---------------------------------------------------------------------


class ILogStoreFactory(IPlugin):
    """Declares a log store: what C{--storage=NAME} chooses from."""

    name = Attribute("str; unique among the installed stores.")
    description = Attribute("str; one line for --help.")

    def settings_class():
        """
        The attrs class of this store's settings.  Fields called C{data_dir},
        C{sync}, C{topic_defaults} or C{producer_id_expiration_ms} receive the broker's
        own options; any other field C{foo_bar} is set with C{--set=NAME.foo.bar=VALUE}.
        """

    def open(settings, environment):
        """
        Open the store.

        @param settings: an instance of L{settings_class}.
        @param environment: L{rustlog.environment.Environment}.
        @return: an L{ILogStore}, or a Deferred of one.
        @raise rustlog.errors.StartupError: with the one sentence that an operator
            needs, when the store can not be opened.
        """


class IOffsetStoreFactory(IPlugin):
    """Declares an offset store: what C{--offsets=NAME} chooses from."""

    name = Attribute("str; unique among the installed offset stores.")
    description = Attribute("str; one line for --help.")

    def settings_class():
        """As in L{ILogStoreFactory}."""

    def open(settings, environment, log_store):
        """
        Open the offset store.

        @param log_store: an open L{ILogStore}, for those that keep offsets in a topic.
        @return: an L{IOffsetStore}, or a Deferred of one.
        @raise rustlog.errors.StartupError: as in L{ILogStoreFactory.open}.
        """


class IWireProtocol(IPlugin):
    """Declares a wire protocol: what C{--listen=NAME=ENDPOINT} chooses from."""

    name = Attribute("str; unique among the installed protocols.")
    description = Attribute("str; one line for --help.")
    default_endpoints = Attribute(
        "Tuple of Twisted server endpoint strings that are opened when no --listen is given."
    )

    def settings_class():
        """
        The attrs class of this protocol's settings, with fields as in L{ILogStoreFactory}.  C{foo_bar} is
        set with C{--set=PROTOCOL.foo.bar=VALUE} for all its listeners, and with
        C{--set=LISTENER.foo.bar=VALUE} for one that has a name of its own.
        """

    def factory(listener):
        """
        Make the protocol factory of one listener.

        @param listener: L{rustlog.wire.listener.Listener}: its name, its settings, the broker, the
            memory budget, the clock, limits.
        @return: an L{IDrainableFactory}.
        """


class IDrainableFactory(Interface):
    """
    A Twisted protocol factory whose connections can be brought to an orderly end.  One with an
    attribute C{closes_last} that is true is for operators: it goes on while other clients are waited for.
    """

    def buildProtocol(address):
        """As in L{twisted.internet.interfaces.IProtocolFactory}."""

    def drain():
        """
        Stop accepting requests; answer what has been accepted; close connections.

        @return: a Deferred that fires when the last connection is gone.
        """


# -- the log ---------------------------------------------------------------------


class IPartition(Interface):
    """
    A handle on one partition, made by the store and hashed by identity.  Its
    attributes are hints: authoritative values come with the result of a read.
    """

    topic = Attribute("rustlog.model.TopicInfo as of now.")
    index = Attribute("int; which partition of the topic.")
    name = Attribute("rustlog.model.TopicPartition.")
    log_start_offset = Attribute("int; the first offset that can be read.")
    high_watermark = Attribute("int; one past the last offset that can be read; never decreases.")
    leader_epoch = Attribute("int; raised when an acknowledged tail may have been lost.")


class ITopicCatalog(Interface):
    """The topics of a store.  Names are judged by the broker before they get here."""

    def get(name):
        """L{TopicInfo <rustlog.model.TopicInfo>} or C{None}, at once."""

    def get_by_id(topic_id):
        """The same by C{UUID}; ids are never used twice."""

    def all():
        """A tuple of L{TopicInfo <rustlog.model.TopicInfo>}, sorted by name, at once."""

    def refresh(name):
        """Deferred C{TopicInfo} or C{None}, from the authority: another broker may create topics."""

    def create(name, partitions, config, internal=False):
        """Deferred C{TopicInfo}, once durable.  Fails with C{TopicExists}."""

    def delete(name):
        """
        Deferred C{None}, once durable.  From then on its handles fail with
        C{TopicNotFound}; files go later.  Fails with C{TopicNotFound}.
        """

    def grow(name, partitions):
        """Deferred C{TopicInfo}.  Fails with C{InvalidPartitionCount} unless it grows."""

    def configure(name, changes):
        """Deferred C{TopicInfo}; C{changes} maps names to text, C{None} removes an override."""

    def subscribe(listener):
        """
        Call C{listener(old, new)} after each change, in order; either may be C{None}.

        @return: a callable that cancels.
        """


class ILogStore(Interface):
    """
    An open log store.  It owns the catalogue, assigns offsets, checks producer
    sequences, and decides what is visible.
    """

    catalog = Attribute("ITopicCatalog.")
    limits = Attribute("rustlog.model.StoreLimits: what its format can hold.")

    def partition(topic, index):
        """The L{IPartition} of a topic name and an index, or C{None}, at once."""

    def append(entries):
        """
        Append batches whose checksum the caller has verified.

        For each partition the batches are appended in the order of the calls and of
        the entries; calls may overlap.  Offsets are assigned and producer epochs and
        sequences checked in one atomic step.  A result means that the batch is as durable
        as C{--sync} promises, and visible to readers.  A duplicate waits for its
        original, then gives the offset of that.  No view of a batch is kept after the result.

        @param entries: list of (L{IPartition}, L{RecordBatch <rustlog.log.batch.RecordBatch>}).
        @return: list, or Deferred of a list, of L{Appended <rustlog.model.Appended>} or
            L{RustlogError <rustlog.errors.RustlogError>}, one for each entry.
        """

    def read(wants, max_bytes, isolation):
        """
        Read whole, verified batches below the high watermark; never wait for data.

        A slice begins with the batch that contains the offset.  At the end of the
        log nothing is found.  Limits are soft for the first batch of the
        whole answer, which is given even when it is larger.

        @param wants: list of (L{IPartition}, offset, max_bytes).
        @param max_bytes: for the whole answer.
        @param isolation: L{rustlog.model.Isolation}.
        @return: list, or Deferred of a list, of L{Fetched <rustlog.model.Fetched>} or
            L{RustlogError <rustlog.errors.RustlogError>}: C{OffsetOutOfRange} before the start or beyond
            the end, C{TopicNotFound}, C{DamagedLog}.
        """

    def watch(partition, listener):
        """
        Call C{listener(partition)} after data became visible or the partition died;
        perhaps without need; never from within C{append} or C{read}.

        @return: a callable that cancels.
        """

    def offset_for(partition, spec):
        """
        Deferred L{FoundOffset <rustlog.model.FoundOffset>}.

        @param spec: an L{OffsetSpec <rustlog.model.OffsetSpec>}, or a timestamp in ms: the
            first record that is not older.
        """

    def epoch_end(partition, epoch):
        """
        Deferred (epoch, end offset) of the largest known epoch not above C{epoch}.  When all
        known ones are later: C{epoch} itself, and where the first of them began.  When C{epoch} was
        never reached: (-1, -1).
        """

    def delete_records(partition, before):
        """
        Deferred new log start offset, once durable.  Fails with C{OffsetOutOfRange}
        when C{before} lies beyond the high watermark.  What lies behind C{before} is on disk before the
        rest is given up, whatever C{--sync} says: who copies records to the end of a log, and then deletes
        them at its beginning, always has one or the other.
        """

    def describe(partition):
        """Deferred L{PartitionDescription <rustlog.model.PartitionDescription>}."""

    def producers(partition):
        """
        Deferred tuple of L{ProducerDescription <rustlog.model.ProducerDescription>}, the longest silent
        first; empty where no producer state is kept.
        """

    def describe_storage():
        """Deferred L{StorageDescription <rustlog.model.StorageDescription>}."""

    def allocate_producer_ids(count):
        """Deferred first id of C{count} fresh ones, durable: never given twice."""

    def maintain():
        """Deferred bool: one bounded step of retention; True while there is more to do."""

    def close():
        """Deferred C{None}: drained, synced, unlocked.  Later calls fail with C{Closed}."""


class IFencing(Interface):
    """An optional power of an open log store: it tells which partitions it has given up writing to."""

    def fenced():
        """List of L{PartitionFenced <rustlog.errors.PartitionFenced>}, at once."""


class ISlice(Interface):
    """
    A run of whole batches, ready to be sent.  Base offsets and epochs are in place.
    """

    size = Attribute("int; bytes.")

    def region():
        """(file descriptor, position) for C{sendfile}, or C{None} when there is no file."""

    def buffer():
        """The bytes, at once: they were warm when the slice was made."""

    def release():
        """Exactly once; until then nothing under the slice is closed."""


# -- offsets of groups -------------------------------------------------------------


class IOffsetStore(Interface):
    """What groups have consumed, and what their coordinator remembers."""

    def commit(group, offsets, generation=None):
        """
        Deferred C{None}, once as durable as C{--sync} promises; all or nothing.  The
        last commit wins, whatever its value.

        @param offsets: dict of C{TopicPartition} to L{Committed <rustlog.model.Committed>}.
        @param generation: fails with C{StaleGeneration} when it is older than one seen before.
        """

    def fetch(group, partitions=None):
        """Deferred dict of C{TopicPartition} to C{Committed}, without those never committed; None = all."""

    def groups():
        """Deferred sorted tuple of the names of all groups."""

    def delete(group, partitions=None):
        """Deferred C{None}, once durable; None = everything about the group."""

    def load(group):
        """Deferred (version, document bytes) as last saved, or (0, b"")."""

    def save(group, version, document):
        """Deferred new version.  Fails with C{VersionConflict} unless C{version} is the current one."""

    def close():
        """Deferred C{None}, after pending commits."""


class IOffsetExpiry(Interface):
    """
    The power of an offset store to forget what is old; optional.  The broker asks for it with
    C{IOffsetExpiry(store, None)}, and where there is none, offsets are kept until they are deleted.
    """

    def expire(group, before_ms):
        """
        Deferred int: how many offsets of a group were forgotten, durably, because their
        C{commit_time} is before that time.  Those without one (-1) stay.  A commit that is under way, and
        every later one, is kept.
        """


# -- the environment ---------------------------------------------------------------


class IFiles(Interface):
    """
    The only way to the disk.  Calls block; paths are C{pathlib.PurePath}.  Errors
    are C{OSError}s.
    """

    def open(path, create=False):
        """L{IFile}; positioned nowhere: appends go to the end, reads name their position."""

    def exists(path):
        """Whether there is a file or directory of that name."""

    def names(path):
        """Sorted list of the names in a directory; empty when there is no such directory."""

    def size(path):
        """Bytes of a file."""

    def make_directory(path):
        """Make it, with parents; no error when it exists."""

    def rename(old, new):
        """Atomically; replaces a file."""

    def unlink(path):
        """Remove a file."""

    def remove_directory(path):
        """Remove an empty directory."""

    def sync_directory(path):
        """Make the entries of a directory (creations, renames, removals) durable; nothing else does."""

    def sync_many(files):
        """
        Make the content of files durable, one by one or all at once, whichever is faster.

        @return: dict of those that failed to their C{OSError}.
        """

    def lock(path):
        """
        Take an exclusive lock that dies with the process; an object with C{close()}.

        @raise BlockingIOError: someone else holds it.
        """

    def free_bytes(path):
        """What is left on the device."""

    def handles_max():
        """How many files may reasonably be held open."""


class IFile(Interface):
    """An open file."""

    size = Attribute("int; where the next append goes.")

    def append(buffers):
        """Write all of them at the end, or raise C{OSError}; a crash may tear it."""

    def read(position, size, wait=True):
        """Up to C{size} bytes; with C{wait=False}, C{None} when the disk would have to be asked."""

    def truncate(size):
        """Cut off the tail."""

    def sync():
        """Make the content durable."""

    def close():
        """Give the handle back."""

    def fileno():
        """int, or C{None} when there is no such thing."""


class IWorkers(Interface):
    """Threads, or a simulation of them."""

    def run(function, *arguments):
        """Deferred result of calling it off the reactor thread; several may run at once."""

    def close():
        """Deferred C{None}, once the running calls have ended."""


class IStoreObserver(Interface):
    """Hears from stores what operators want to know."""

    def synced(files, seconds, failed):
        """
        A round of syncs has ended.

        @param files: how many files it was for.
        @param seconds: how long it took.
        @param failed: whether anything in it went wrong.
        """


class IWallClock(Interface):
    """The time of day; may jump."""

    def now_ms():
        """int; milliseconds since the epoch."""


class IRandomSource(Interface):
    """Where unpredictable values come from."""

    def uuid():
        """A fresh C{uuid.UUID}, version 4."""

    def uniform(low, high):
        """float between the two."""
