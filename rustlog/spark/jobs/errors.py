"""
Why a job does not do what it was asked for.
"""

from __future__ import annotations

from rustlog.spark.errors import PipelineError


class JobFailed(PipelineError):
    """One sentence that says why, and what to do."""
