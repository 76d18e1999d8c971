"""
Archives that are Delta tables: the files of a commit become visible in one transaction.

The transaction bears the archive's id and the number of the commit, and Delta remembers the highest number
it has seen of each id.  So a commit that is announced again, after a crash, changes nothing.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import orjson

from rustlog.spark.jobs.archives import Announce
from rustlog.spark.jobs.errors import JobFailed
from rustlog.spark.jobs.manifests import ArchivedFile, Manifest

if TYPE_CHECKING:
    import pyarrow as pa

PARTITIONED_BY = ["topic", "date"]


def announcer(archive_id: str, schema: pa.Schema) -> Announce:
    """
    Tells Delta of commits.

    @param schema: of the table, with the columns by which it is partitioned.
    @raise JobFailed: the package is not there.
    """
    deltalake = package()

    def announce(root: PurePath, manifest: Manifest) -> None:
        if not deltalake.DeltaTable.is_deltatable(str(root)):
            _create(deltalake, root, schema)
        table = deltalake.DeltaTable(str(root))
        known = table.transaction_version(archive_id)
        if known is not None and known >= manifest.number:
            return
        properties = deltalake.CommitProperties(
            custom_metadata={"rustlog.commit": str(manifest.number)},
            app_transactions=[deltalake.Transaction(archive_id, manifest.number)],
        )
        actions = [_action(each, manifest.time_ms) for each in manifest.files]
        table.create_write_transaction(
            actions, "append", schema, PARTITIONED_BY, commit_properties=properties
        )

    return announce


def _create(deltalake: Any, root: PurePath, schema: pa.Schema) -> None:
    deltalake.DeltaTable.create(str(root), schema, partition_by=PARTITIONED_BY, mode="ignore")


def _action(file: ArchivedFile, time_ms: int) -> Any:
    from deltalake.transaction import AddAction

    statistics = {
        "numRecords": file.records,
        "minValues": {"partition": file.partition, "offset": file.first_offset},
        "maxValues": {"partition": file.partition, "offset": file.last_offset},
        "nullCount": {"partition": 0, "offset": 0},
    }
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values={"topic": file.topic, "date": file.date},
        modification_time=time_ms,
        data_change=True,
        stats=orjson.dumps(statistics).decode(),
    )


def package() -> Any:
    """
    The package that knows Delta.

    @raise JobFailed: it is not installed.
    """
    try:
        import deltalake
    except ImportError:
        raise JobFailed("Delta tables need another package: pip install 'rustlog[delta]'") from None
    return deltalake
