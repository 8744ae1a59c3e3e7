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
from typing import IO, TYPE_CHECKING, Any

from nbstream.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FIRST_NAME, LAST_NAME = "nbstream-backup.json", "manifest.json"

_STEP_BYTES = 1 << 20
_GZIP_LEVEL = 6
_MAX_NAME_BYTES = 1024
_MAX_MEMBERS = 1_000_000
_MAX_MANIFEST_BYTES = 256 << 20
_EMPTY_BLOCK = bytes(tarfile.BLOCKSIZE)


class ContainerWriter:
    """Writes one backup to ``stream``, which stays open; ``header`` is the content of the first member."""

    def __init__(self, stream: IO[bytes], header: Mapping[str, Any]) -> None:
        self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=_GZIP_LEVEL, fileobj=stream, mtime=0)
        self._digests: dict[str, str] = {}
        self.add(FIRST_NAME, _json_stream(header))

    def add(self, name: str, content: IO[bytes], modified: float = 0.0) -> int:
        """Append a member with the whole of ``content``, and return its size in bytes.

        ``modified`` is in seconds since the epoch.
        """
        info, digest = tarfile.TarInfo(name), hashlib.sha256()
        info.size, info.mode, info.mtime = content.seek(0, os.SEEK_END), 0o600, int(modified)
        content.seek(0)
        self._gzip.write(info.tobuf(tarfile.GNU_FORMAT))
        while step := content.read(_STEP_BYTES):
            self._gzip.write(step)
            digest.update(step)
        self._gzip.write(bytes(-info.size % tarfile.BLOCKSIZE))
        self._digests[name] = digest.hexdigest()
        return info.size

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Write the last member: ``manifest``, and the digests."""
        self.add(LAST_NAME, _json_stream({**manifest, "sha256": self._digests}))
        self._gzip.write(2 * _EMPTY_BLOCK)
        self._gzip.close()


def _json_stream(value: Mapping[str, Any]) -> IO[bytes]:
    return io.BytesIO(json.dumps(value, indent=1).encode())


class Member(io.RawIOBase):
    """One member: its name, its size in bytes, when it was last modified, and its content, which is read once.

    Reading raises ``InputError`` where the file is cut.
    """

    def __init__(self, reader: ContainerReader, name: str, info: tarfile.TarInfo) -> None:
        self.name, self.size, self.modified = name, info.size, float(info.mtime)
        self._reader = reader
        self._left = info.size
        self._digest = hashlib.sha256()

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes into ``buffer``, and return how many there were; 0 at the end."""
        content = self._reader.read(min(self._left, len(buffer)))
        buffer[: len(content)] = content
        self._left -= len(content)
        self._digest.update(content)
        return len(content)

    def json(self) -> Mapping[str, Any]:
        """Return what the member says. Raises ``InputError`` for what is no object."""
        try:
            value = json.loads(self.readall()) if self.size <= _MAX_MANIFEST_BYTES else None
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
        self._gzip = gzip.GzipFile(fileobj=stream, mode="rb")
        self._file = file
        self._members = self._read_members()
        first = next(self._members, None)
        if first is None or first.name != FIRST_NAME:
            raise self.error("no backup of nbstream")
        self.header = first.json()
        self._digests = {FIRST_NAME: first.finish()}
        self.manifest: Mapping[str, Any] = {}
        self.digest = ""

    def error(self, problem: str) -> InputError:
        """Return an error that names the file."""
        return InputError(f"{self._file}: {problem}")

    def __iter__(self) -> Iterator[Member]:
        for member in self._members:
            if self.digest or member.name in self._digests or len(self._digests) > _MAX_MEMBERS:
                raise self.error("damaged: has a member twice, or after its end")
            if member.name == LAST_NAME:
                self.manifest, self.digest = member.json(), member.finish()
            else:
                yield member
                self._digests[member.name] = member.finish()
        if self.manifest.get("sha256") != self._digests or self.read(tarfile.BLOCKSIZE) != _EMPTY_BLOCK:
            raise self.error("cut, or damaged: it does not match its own checksums")
        if self._read_at_most(1):
            raise self.error("damaged: something follows its end")

    def read(self, size: int) -> bytes:
        """Return the next ``size`` bytes of the tar. Raises ``InputError`` where there are fewer."""
        content = self._read_at_most(size)
        if len(content) < size:
            raise self.error("cut")
        return content

    def _read_at_most(self, size: int) -> bytes:
        try:
            return self._gzip.read(size)
        except (OSError, EOFError, zlib.error) as error:
            raise self.error(f"cut, damaged, or no backup of nbstream ({error})") from error

    def _read_members(self) -> Iterator[Member]:
        long_name = ""
        while (block := self.read(tarfile.BLOCKSIZE)) != _EMPTY_BLOCK:
            try:
                info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            except tarfile.HeaderError as error:
                raise self.error("damaged, or no backup of nbstream") from error
            if info.type == tarfile.GNUTYPE_LONGNAME and 0 < info.size <= _MAX_NAME_BYTES:
                long_name = self.read(info.size).rstrip(b"\0").decode("utf-8", "surrogateescape")
            elif info.type == tarfile.REGTYPE and info.size >= 0:
                member = Member(self, long_name or info.name, info)
                yield member
                member.finish()
                long_name = ""
            else:
                raise self.error("has a member that is no plain file")
            self.read(-info.size % tarfile.BLOCKSIZE)
