"""What an SMTP client reads in the reply to EHLO and says to log in, without I/O (RFC 5321 4.1.1.1, RFC 4954)."""

from __future__ import annotations

from base64 import b64encode


def ehlo_extensions(text: str) -> dict[str, tuple[str, ...]]:
    """Return the extensions in the text of a reply to EHLO or LHLO: keywords and parameters in upper case.

    The first line is the server's name.
    """
    lines = (line.upper().split() for line in text.split("\n")[1:])
    return {words[0]: tuple(words[1:]) for words in lines if words}


def auth_lines(mechanisms: tuple[str, ...], user: str, password: str) -> list[bytes]:
    """Return the lines of the login by the first mechanism of PLAIN and LOGIN that the server has.

    The server answers each but the last with a 334. The list is empty where it has neither.
    """
    if "PLAIN" in mechanisms:
        return [b"AUTH PLAIN " + b64encode(f"\0{user}\0{password}".encode())]
    if "LOGIN" in mechanisms:
        return [b"AUTH LOGIN", b64encode(user.encode()), b64encode(password.encode())]
    return []
