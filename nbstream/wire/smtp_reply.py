"""The reply of an SMTP server, and how it is written on the wire (RFC 5321 4.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNSAFE = re.compile(r"[^\x20-\x7e\n]")


@dataclass(frozen=True, slots=True)
class SmtpReply:
    """A reply: the three-digit code, and the text with its enhanced status code.

    A line feed parts the lines of the text.
    """

    code: int
    text: str

    @property
    def accepted(self) -> bool:
        """Whether the code is 2xx."""
        return 200 <= self.code < 300

    def render(self) -> bytes:
        """Return the reply as it is sent, but without its last CRLF.

        Control characters and characters outside ASCII become ``?``.
        """
        if self.text.isascii() and self.text.isprintable():  # the usual reply has one line, and nothing to replace
            return f"{self.code} {self.text}".encode("ascii")
        lines = _UNSAFE.sub("?", self.text).split("\n")
        head = [f"{self.code}-{line}" for line in lines[:-1]]
        return "\r\n".join([*head, f"{self.code} {lines[-1]}"]).encode("ascii")

    def __str__(self) -> str:
        return self.render().decode("ascii")
