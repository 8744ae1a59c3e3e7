"""The static files of the page: style, scripts and icon, read once, and packed once.

Rules: what is served is in a table that is made of the folder ``static``; no path of a request reaches the file
system. The version, a hash of all files, is in the query of each address, so a browser asks for a file once. Asked
for without it, as one script imports another, a file is compared by its ETag. Pages are never packed: their length
would tell of secrets in them next to a text of somebody else (BREACH).
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml; charset=utf-8",
}
_FOREVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as it is served; ``packed`` is its content with gzip."""

    content_type: str
    content: bytes
    packed: bytes


@dataclass(frozen=True, slots=True)
class StaticFiles:
    """All files by their names, and their version."""

    files: Mapping[str, StaticFile]
    version: str

    def find(self, name: str) -> StaticFile | None:
        """Return the file of this name."""
        return self.files.get(name)

    def fields(self, file: StaticFile, query: str, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Return the fields of an answer to a request with these ``headers``.

        ``Content-Encoding`` is there where the content is to be ``packed``.
        """
        fields = {
            "Content-Type": file.content_type,
            "ETag": self.etag,
            "Vary": "Accept-Encoding",
            "Cache-Control": _FOREVER if query == self.version else "no-cache",
        }
        return (
            fields | {"Content-Encoding": "gzip"} if _accepts_gzip(headers.get("Accept-Encoding", "")) else fields
        )

    @property
    def etag(self) -> str:
        """The entity tag of every file of this version; weak, because it is that of both encodings."""
        return f'W/"{self.version}"'


def load_static_files() -> StaticFiles:
    """Read the files of the folder ``static``."""
    files = {}
    version = hashlib.sha256()
    folder = resources.files("nbstream.web").joinpath("static")
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        content_type = _TYPES.get(entry.name.rpartition(".")[2])
        if content_type is not None:
            content = entry.read_bytes()
            version.update(content)
            files[entry.name] = StaticFile(content_type, content, gzip.compress(content, mtime=0))
    return StaticFiles(files, version.hexdigest()[:12])


def _accepts_gzip(accepted_encodings: str) -> bool:
    for encoding in accepted_encodings.lower().split(","):
        name, _, quality = encoding.replace(" ", "").partition(";")
        if name == "gzip":
            return quality not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False
