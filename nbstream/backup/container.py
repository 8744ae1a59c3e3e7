"""The file of a backup: a compressed tar of plain files, read and written as a stream.

Rules: the first member says what a reader has to know, the last one has the SHA-256 of each other member; a file
without it is cut. Links, devices, folders and extended headers are refused, and a reader has at most a step of a
member in memory. Nothing is extracted by the path that stands in the file. ``tar`` can list and extract it all the
same: people take their configuration out of it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Self

from nbstream.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FIRST_NAME, LAST_NAME = "nbstream-backup.json", "manifest.json"

_STEP_BYTES = 1 << 20
_GZIP_LEVEL = 6
_MAX_NAME_BYTES = 1024
_MAX_MEMBERS = 1_000_000
_MAX_MEMBER_BYTES = 1 << 60  # more is no place in a file
_MAX_JSON_BYTES = 1 << 20  # with all that it lists: a list of empty lists takes fifty times its size in memory
_MAX_BYTES_OF_MEMBER = 8 << 10  # in the manifest


class ContainerWriter:
    """Writes one backup to ``stream``, which stays open; ``header`` is the content of the first member."""

    def __init__(self, stream: IO[bytes], header: Mapping[str, Any]) -> None:
        self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=_GZIP_LEVEL, fileobj=stream, mtime=0)
        self._tar = tarfile.TarFile(fileobj=self._gzip, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8")
        self._digests: dict[str, str] = {}
        self.add(FIRST_NAME, _json_stream(header))

    def add(self, name: str, content: IO[bytes], modified: float = 0.0) -> int:
        """Append a member with the whole of ``content``, and return its size in bytes.

        ``modified`` is in seconds since the epoch. Raises ``OSError``.
        """
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = content.seek(0, os.SEEK_END), 0o600, int(modified)
        content.seek(0)
        self._digests[name] = hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]
        content.seek(0)
        self._tar.addfile(info, content)
        self._tar.members.clear()  # type: ignore[attr-defined]  # it would remember each
        return info.size

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Write the last member: ``manifest``, and the digests. Raises ``OSError``."""
        self.add(LAST_NAME, _json_stream({**manifest, "sha256": self._digests}))
        self._tar.close()
        self._gzip.close()


def _json_stream(value: Mapping[str, Any]) -> IO[bytes]:
    return io.BytesIO(json.dumps(value, indent=1).encode())


class _PlainFile(tarfile.TarInfo):
    """The header of a plain file, or of its long name; any other is refused before ``tarfile`` reads on."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        info = super().frombuf(buf, encoding, errors)
        limits = {tarfile.REGTYPE: _MAX_MEMBER_BYTES, tarfile.GNUTYPE_LONGNAME: _MAX_NAME_BYTES}
        if not 0 <= info.size <= limits.get(info.type, -1):
            raise tarfile.ReadError("a member is no plain file")
        return info


class Member(io.RawIOBase):
    """One member: its name, its size in bytes, when it was last modified, and its content, which is read once.

    Reading raises ``InputError`` where the file is cut.
    """

    def __init__(self, reader: ContainerReader, info: tarfile.TarInfo, content: IO[bytes]) -> None:
        self.name, self.size, self.modified = info.name, info.size, float(info.mtime)
        self._reader = reader
        self._content = content
        self._digest = hashlib.sha256()

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes into ``buffer``, and return how many there were; 0 at the end."""
        with self._reader.translated_errors():
            content = self._content.read(len(buffer))
        buffer[: len(content)] = content
        self._digest.update(content)
        return len(content)

    def json(self, members: int = 0) -> Mapping[str, Any]:
        """Return what the member says of so many others. Raises ``InputError`` for what is no object."""
        is_small = self.size <= _MAX_JSON_BYTES + members * _MAX_BYTES_OF_MEMBER
        try:
            value = json.loads(self.readall()) if is_small else None
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise self._reader.error(f"{self.name} is damaged")
        return value

    def finish(self) -> str:
        """Pass over what was not read, and return the SHA-256 of the content."""
        step = bytearray(_STEP_BYTES)
        while self.readinto(step):
            pass
        return self._digest.hexdigest()


class ContainerReader:
    """Reads one backup: first ``header``, then the other members by iteration, and then ``manifest``.

    The content is verified only when the iteration has ended without an error; ``digest`` tells it from any other
    then. ``file`` is its name in errors. Raises ``InputError`` for a file that is no backup, or cut or damaged.
    """

    def __init__(self, stream: IO[bytes], file: str) -> None:
        self._file = file
        self._gzip = gzip.GzipFile(fileobj=stream, mode="rb")
        with self.translated_errors():
            self._tar = tarfile.TarFile(fileobj=self._gzip, tarinfo=_PlainFile, encoding="utf-8")
        first = self._next_member()
        if first is None or first.name != FIRST_NAME:
            raise self.error("no backup of nbstream")
        self.header = first.json()
        self._digests = {FIRST_NAME: first.finish()}
        self.manifest: Mapping[str, Any] = {}
        self.digest = ""

    def error(self, problem: str) -> InputError:
        """Return an error that names the file."""
        return InputError(f"{self._file}: {problem}")

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Raise ``InputError`` for what ``gzip`` and ``tarfile`` raise where a file is no backup, or is cut."""
        try:
            yield
        except (OSError, EOFError, RecursionError, tarfile.TarError, zlib.error) as error:
            raise self.error(f"cut, damaged, or no backup of nbstream ({error})") from error

    def __iter__(self) -> Iterator[Member]:
        while member := self._next_member():
            if self.digest or member.name in self._digests or len(self._digests) > _MAX_MEMBERS:
                raise self.error("damaged: has a member twice, or after its end")
            if member.name == LAST_NAME:
                self.manifest, self.digest = member.json(len(self._digests)), member.finish()
            else:
                yield member
                self._digests[member.name] = member.finish()
        if self.manifest.get("sha256") != self._digests:
            raise self.error("cut, or damaged: it does not match its own checksums")
        with self.translated_errors():
            rest = self._gzip.read(tarfile.RECORDSIZE)  # the last record is filled up with zeros
            if any(rest) or self._gzip.read(1):
                raise self.error("damaged: something follows its end")

    def _next_member(self) -> Member | None:
        with self.translated_errors():
            info = self._tar.next()
            self._tar.members.clear()  # type: ignore[attr-defined]  # it would remember each
            content = info and self._tar.extractfile(info)
        return Member(self, info, content) if info and content else None
