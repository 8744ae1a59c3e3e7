"""Bytes that come in pieces and become one byte string."""

from __future__ import annotations

from io import BytesIO


class ContentBuffer:
    """Collects pieces; ``take`` returns them as one byte string without a copy of them.

    To join a list of pieces holds everything twice for a moment, and a list of single bytes takes forty times
    their size. A buffer of this kind grows where it lies, as far as the allocator can do that.
    """

    def __init__(self) -> None:
        self._stream = BytesIO()

    def __len__(self) -> int:
        return self._stream.tell()

    def append(self, piece: bytes | memoryview) -> None:
        """Add a piece at the end."""
        self._stream.write(piece)

    def take(self) -> bytes:
        """Return all pieces, and forget them."""
        stream, self._stream = self._stream, BytesIO()
        return stream.getvalue()
