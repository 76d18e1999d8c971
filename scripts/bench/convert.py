"""
How fast data directories are converted, and how much memory that takes.

A MiniKafka directory is written with a few lines of struct, converted to segments, and back; each conversion
is the console tool in a process of its own, whose memory is watched.

    scripts/bench/convert.py [--quick] [--json] [--bytes N] [--record-bytes N]
"""

from __future__ import annotations

import argparse
import hashlib
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path

from common import MIB, ROOT, Report, Row, arguments, temporary_directory

SEGMENT_BYTES = 100 * MIB
PARTITIONS = 4


def write_directory(root: Path, total: int, record_bytes: int) -> int:
    """A MiniKafka directory of about so many bytes; how many records it has."""
    payload = bytes(range(256)) * (record_bytes // 256 + 1)
    payload = payload[:record_bytes]
    crc, count = zlib.crc32(payload), 0
    for partition in range(PARTITIONS):
        directory = root / "logs" / "bench" / str(partition)
        directory.mkdir(parents=True)
        offset, left = 0, total // PARTITIONS
        while left > 0:
            with open(directory / f"{offset}.log", "wb") as file:
                while file.tell() < min(SEGMENT_BYTES, left):
                    lines = []
                    for number in range(offset, offset + 1000):
                        key = b"key-%d" % (number % 1000)
                        length = 28 + len(key) + len(payload)
                        lines.append(struct.pack(">iIqqi", length, crc, number, 10**12 + number, len(key)))
                        lines += key, struct.pack(">i", len(payload)), payload
                    file.write(b"".join(lines))
                    offset += 1000
                left -= file.tell()
        count += offset
    return count


def resident_bytes(pid: int) -> int:
    """What a process has in memory now."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return 0


def convert(source: Path, target: Path, old: str, new: str) -> tuple[float, list[int]]:
    """How long it took, and what was in memory meanwhile."""
    command = [sys.executable, "-m", "rustlog", "log", "convert", str(source), str(target)]
    began = time.monotonic()
    command += [f"--from={old}", f"--to={new}", "--json"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    samples = []
    while process.poll() is None:
        samples.append(resident_bytes(process.pid))
        time.sleep(0.1)
    if process.returncode:
        raise SystemExit(f"the conversion failed with status {process.returncode}")
    return time.monotonic() - began, [each for each in samples if each]


def row(direction: str, size: int, records: int, seconds: float, samples: list[int]) -> Row:
    tenth = max(1, len(samples) // 10)
    return {
        "direction": direction,
        "MiB": size / MIB,
        "records": records,
        "seconds": seconds,
        "MiB/s": size / MIB / seconds,
        "records/s": records / seconds,
        "RSS after a tenth, MiB": samples[tenth] / MIB,
        "RSS max, MiB": max(samples) / MIB,
    }


def extend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bytes", type=int, default=2 * 10**9, help="size of the directory [2 GB]")
    parser.add_argument("--record-bytes", type=int, default=1000, help="size of a payload [1000]")


def digests(root: Path) -> list[str]:
    """The content of each partition, however it is cut into files."""
    found = []
    for directory in sorted((root / "logs" / "bench").iterdir()):
        digest = hashlib.blake2b()
        for path in sorted(directory.glob("*.log"), key=lambda path: int(path.stem)):
            with open(path, "rb") as file:
                while piece := file.read(MIB):
                    digest.update(piece)
        found.append(digest.hexdigest())
    return found


def main() -> None:
    options = arguments(__doc__, extend)
    report = Report(options.json)
    total = options.bytes // 50 if options.quick else options.bytes
    with temporary_directory() as root:
        records = write_directory(root / "minikafka", total, options.record_bytes)
        size = sum(path.stat().st_size for path in (root / "minikafka").rglob("*.log"))
        rows = []
        for old, new, source, target in (
            ("minikafka", "segments", "minikafka", "segments"),
            ("segments", "minikafka", "segments", "back"),
        ):
            seconds, samples = convert(root / source, root / target, old, new)
            rows.append(row(f"{old} to {new}", size, records, seconds, samples))
        if digests(root / "minikafka") != digests(root / "back"):
            raise SystemExit("what came back is not what was sent")
        report.table("There and back; afterwards every partition is the same, byte for byte", rows)
    report.end()


if __name__ == "__main__":
    main()
