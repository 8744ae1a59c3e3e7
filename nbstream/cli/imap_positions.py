"""Up to which message a folder was learned, for each label: the next run begins after it.

Rules: messages of a folder are learned in the order of their UIDs, so one number says which ones were. It is
written only after the lessons are. It holds as long as the folder has the same UIDVALIDITY (RFC 3501, 2.3.1.1).
Where it cannot be read there is none, since messages may be learned again.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from nbstream.cli.message_files import FolderPosition
from nbstream.terminal import print_error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nbstream.store.state_file import StateFile

_SAVED_MESSAGES = 1000


class FolderPositions:
    """The positions of a model and a label in the state file, one for each folder."""

    def __init__(self, state: StateFile, model: str, label: str) -> None:
        self._state = state
        self._key = (model, label)

    def read(self, folder: str) -> FolderPosition | None:
        """Return the last message that was learned, or None where that is not known."""
        query = "SELECT uid_validity, uid FROM imap_positions WHERE model = ? AND label = ? AND folder = ?"
        with suppress(OSError):
            for uid_validity, uid in self._state.read(query, *self._key, folder):
                return FolderPosition(folder, uid_validity, uid)
        return None

    def write(self, positions: Iterable[FolderPosition]) -> None:
        """Put the positions in place of the former ones, durably. Raises ``OSError``."""
        query = "INSERT OR REPLACE INTO imap_positions VALUES (?, ?, ?, ?, ?)"
        rows = [(*self._key, position.folder, position.uid_validity, position.uid) for position in positions]
        self._state.write(lambda database: database.executemany(query, rows).rowcount)


def forget_positions(state: StateFile, model: str) -> None:
    """Forget the positions of the model in all folders, whatever the label, as far as they can be removed."""
    query = "DELETE FROM imap_positions WHERE model = ?"
    with suppress(OSError):
        state.write(lambda database: database.execute(query, (model,)).rowcount)


class LearnedPositions:
    """Follows which messages of folders are learned, and writes that down from time to time."""

    def __init__(self, positions: FolderPositions) -> None:
        self._positions = positions
        self._under_way: deque[FolderPosition | None] = deque()
        self._learned: dict[str, FolderPosition] = {}
        self._incomplete: set[str] = set()
        self._unsaved = 0
        self._is_writable = True

    def begin(self, position: FolderPosition | None) -> None:
        """Note the next message that is taught; None stands for one that is in no folder."""
        self._under_way.append(position)

    def finish(self, *, is_learned: bool) -> None:
        """Note that the first message under way is done with."""
        position = self._under_way.popleft()
        if position is None:
            return
        if not is_learned:
            self._incomplete.add(position.folder)  # the next run tries it again, and what follows it
        if position.folder not in self._incomplete:
            self._learned[position.folder] = position
        self._unsaved += 1
        if self._unsaved >= _SAVED_MESSAGES:
            self.save()

    def save(self) -> None:
        """Write what is not written yet. What cannot be written is said once: the lessons themselves are safe."""
        self._unsaved = 0
        if not self._learned or not self._is_writable:
            return
        try:
            self._positions.write(self._learned.values())
            self._learned.clear()
        except OSError as error:
            self._is_writable = False
            print_error(
                f"{error.filename}: {error.strerror}; the next run reads all messages of the folders again"
            )
