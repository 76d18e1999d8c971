"""
What can be set for the Kafka protocol.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from pathlib import PurePath
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import attrs
from attrs import frozen
from attrs.validators import ge, le

from rustlog.settings import UNLIMITED


def _setting(default: Any, doc: str, *validators: Any) -> Any:
    return attrs.field(default=default, validator=list(validators), metadata={"doc": doc})


@frozen
class KafkaSettings:
    """
    Set with C{--set=kafka.KEY=VALUE}.

    @ivar data_dir: where the broker keeps its data.
    """

    data_dir: PurePath = attrs.field(factory=PurePath)
    cluster_id: str = _setting(
        "", "What clients are told to be the cluster's id; by default made of --data-dir."
    )
    fetch_max_bytes: int = _setting(
        55 * 1024 * 1024,
        "The most that one Fetch is answered with, unless its first batch is larger.",
        ge(1024),
    )
    fetch_max_records: int = _setting(
        UNLIMITED,
        "The most records that one Fetch is answered with, unless its first batch has more; -1: no limit.",
        ge(UNLIMITED),
    )
    socket_request_max_bytes: int = _setting(
        100 * 1024 * 1024, "The largest request that is accepted.", ge(1024), le(2**31 - 1)
    )

    @property
    def effective_cluster_id(self) -> str:
        """
        In the form of Kafka's own: 16 bytes in base64.  It stays the same as long as the data stay where
        they are.
        """
        if self.cluster_id:
            return self.cluster_id
        digest = uuid5(NAMESPACE_URL, f"rustlog:{self.data_dir}").bytes
        return urlsafe_b64encode(digest).rstrip(b"=").decode()
