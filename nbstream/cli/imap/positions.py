"""Up to which message a folder was learned, for each label: the next run begins after it.

Rules: messages of a folder are learned in the order of their UIDs, so one number says which ones were. It is
written only after the lessons are. It holds as long as the folder has the same UIDVALIDITY (RFC 3501, 2.3.1.1).
A file that cannot be read stands for none, since messages may be learned again.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections import deque
from contextlib import suppress
from pathlib import Path

from nbstream.cli.message_files import FolderPosition
from nbstream.cli.terminal import print_error

_SAVED_MESSAGES = 1000


class PositionFiles:
    """The files of a model and a label in ``state_dir``, one for each folder."""

    def __init__(self, state_dir: Path, model: str, label: str) -> None:
        self._dir = state_dir / "imap"
        self._model = model
        self._label = label

    def read(self, folder: str) -> FolderPosition | None:
        """Return the last message that was learned, or None where that is not known."""
        try:
            entry = json.loads(self._path(folder).read_bytes())
            position = FolderPosition(folder, entry["uid_validity"], entry["uid"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        is_valid = type(position.uid_validity) is int and type(position.uid) is int
        return position if is_valid else None

    def remove_all(self) -> None:
        """Forget the positions of the model in all folders, whatever the label, as far as they can be removed."""
        for path in self._dir.glob("*.json"):
            with suppress(OSError, ValueError, KeyError, TypeError):
                if json.loads(path.read_bytes())["model"] == self._model:
                    path.unlink()

    def write(self, position: FolderPosition) -> None:
        """Put the position in place of the former one, durably. Raises OSError."""
        for folder in (self._dir.parent, self._dir):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        entry = {
            "folder": position.folder,
            "model": self._model,
            "label": self._label,
            "uid_validity": position.uid_validity,
            "uid": position.uid,
        }
        path = self._path(position.folder)
        # A name that nobody can know, and a new file: root must not write where a link of the daemon's user leads.
        new = path.with_suffix(f".{secrets.token_hex(8)}")
        try:
            with new.open("x", encoding="utf-8") as file:
                json.dump(entry, file)
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
        except BaseException:
            with suppress(OSError):
                new.unlink()
            raise

    def _path(self, folder: str) -> Path:
        name = hashlib.sha256("\n".join((self._model, self._label, folder)).encode()).hexdigest()[:32]
        return self._dir / f"{name}.json"


class LearnedPositions:
    """Follows which messages of folders are learned, and writes that down from time to time."""

    def __init__(self, files: PositionFiles) -> None:
        self._files = files
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
        try:
            while self._learned and self._is_writable:
                self._files.write(self._learned.popitem()[1])
        except OSError as error:
            self._is_writable = False
            print_error(
                f"{error.filename}: {error.strerror}; the next run reads all messages of the folders again"
            )
