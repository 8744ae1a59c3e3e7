"""How much waits in the spool: for commands and metrics, whether a daemon runs or not."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.spool.failed_messages import failed_count
from nbstream.spool.position import SpoolPosition, read_position
from nbstream.spool.segments import frame_size, open_segment, read_message, segment_numbers, segment_path
from nbstream.store.frames import NoFrame

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class SpoolBacklog:
    """How many messages wait and have failed; ``oldest_since`` is when the first that waits came (Unix time)."""

    waiting: int = 0
    failed: int = 0
    oldest_since: int | None = None

    def oldest_seconds(self, now: float) -> float:
        """Return for how long the first message waits, 0 where none does; ``now`` is Unix time."""
        return 0.0 if self.oldest_since is None else max(0.0, now - self.oldest_since)


def measure_backlog(folder: Path) -> SpoolBacklog:
    """Return the backlog of the spool in ``folder``; nothing waits where there is no folder. Raises ``OSError``.

    Of each message only the length is read.
    """
    position = read_position(folder)
    waiting, oldest_since = 0, None
    for number in segment_numbers(folder):
        if number < position.segment:
            continue
        offset = position.offset if number == position.segment else SpoolPosition().offset
        with suppress(FileNotFoundError), open_segment(segment_path(folder, number)) as descriptor:  # just learned
            while not isinstance(size := frame_size(descriptor, offset), NoFrame):
                if oldest_since is None and not isinstance(found := read_message(descriptor, offset), NoFrame):
                    oldest_since = found[0].received_at
                waiting += 1
                offset += size
    return SpoolBacklog(waiting, failed_count(folder), oldest_since)
