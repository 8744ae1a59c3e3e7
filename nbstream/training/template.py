"""The template of a site's mailboxes, in the variables of Dovecot: ``/var/mail/%d/%n``, ``imaps://%u@mail.example.org/``.

Rules: pure. ``%u`` is the whole name of the user, ``%n`` what stands before its ``@``, ``%d`` the domain, and
``%%`` a percent sign. In a URL ``%`` and two hexadecimal digits are a byte. No user's name leads out of the place
of a variable: it has no slash, and begins with no dot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from nbstream.server.imap import IMAP_PORTS, ImapAccount

_VARIABLE = re.compile(r"%(.?)", re.DOTALL)
_PATTERNS = {"u": r"[^/]+", "n": r"[^/@]+", "d": r"[^/@]+"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MAX_USER_CHARACTERS = 320


@dataclass(frozen=True, slots=True)
class PathTemplate:
    """A template of paths: ``root`` has no variable, and ``segments`` are the names below it."""

    root: Path
    segments: tuple[str, ...]

    def name_at(self, position: int, known: Mapping[str, str]) -> str | None:
        """Return the name at ``position`` by the variables that are known, None where one is missing."""
        segment = self.segments[position]
        return _fill(segment, known) if all(name in known for name in _variables(segment)) else None

    def match(self, position: int, name: str, known: Mapping[str, str]) -> Mapping[str, str] | None:
        """Return the variables after a name matched the segment at ``position``, or None where it does not.

        ``known`` are those of the segments before; each variable has one value.
        """
        if name.startswith(".") and self.segments[position].startswith("%"):
            return None
        match = re.fullmatch(_pattern(self.segments[position], known), name)
        if match is None:
            return None
        values = {**known, **match.groupdict()}
        if "u" in values:
            of_user = user_variables(values["u"])
            if any(values.get(variable, value) != value for variable, value in of_user.items()):
                return None
            values |= of_user
        return values


@dataclass(frozen=True, slots=True)
class UrlTemplate:
    """A template of IMAP accounts at one server; ``user`` may name a master user, such as ``%u*master``."""

    host: str
    port: int
    implicit_tls: bool
    user: str

    def account_of(self, user: str) -> ImapAccount:
        """Return the login of a user."""
        return ImapAccount(self.host, self.port, self.implicit_tls, _fill(self.user, user_variables(user)))


def parse_template(text: str) -> PathTemplate | UrlTemplate:
    """Return the template in ``text``. Raises ``ValueError``, which says what is wrong and shows no password."""
    if text.startswith(tuple(f"{scheme}://" for scheme in IMAP_PORTS)):
        return _parse_url(text)
    if re.match(r"\w+:", text):
        raise ValueError("is no path and no imaps:// URL: of Dovecot's mail_location give the path alone")
    _check_variables(text)
    segments = [part for part in text.split("/") if part]
    if not text.startswith("/") or ".." in segments:
        raise ValueError("must be a whole path that begins with /, without ..")
    if not {"u", "n"} & set(_variables(text)):
        raise ValueError("names no user: %u or %n must stand in it")
    first = next(i for i, part in enumerate(segments) if _variables(part))
    root = Path("/", *(_fill(part, {}) for part in segments[:first]))
    return PathTemplate(root, tuple(segments[first:]))


def user_of(values: Mapping[str, str]) -> str:
    """Return the user whose variables these are."""
    if "u" in values:
        return values["u"]
    return "@".join(values[name] for name in "nd" if name in values)


def user_variables(user: str) -> Mapping[str, str]:
    """Return the variables of a user."""
    local, _, domain = user.partition("@")
    return {"u": user, "n": local, "d": domain}


def parse_users(lines: Iterable[str]) -> Sequence[str]:
    """Return the users of a list: one a line; empty lines and those that begin with ``#`` are left out.

    Raises ``ValueError`` for a line that can be no user.
    """
    users = dict.fromkeys(line.strip() for line in lines)
    named = [user for user in users if user and not user.startswith("#")]
    for user in named:
        local, at, domain = user.partition("@")
        is_name = local and domain if at else local
        if not is_name or "@" in domain or "/" in user or user.startswith(".") or domain.startswith("."):
            raise ValueError(f"{user} is no user such as ann or ann@example.org")
        if len(user) > _MAX_USER_CHARACTERS or _CONTROL.search(user):
            raise ValueError("a line is no user: it is too long, or has a control character")
    return named


def parse_passwords(text: str, users: Sequence[str]) -> Mapping[str, str]:
    """Return the passwords of users by the lines ``USER:PASSWORD`` of a file.

    One line that names none of them is the password of all, such as a master user's. Raises ``ValueError`` for
    other lines that name none: no server gets to see the passwords of users that it is not asked about.
    """
    lines = text.splitlines()
    known = set(users)
    named = {user: password for user, _, password in (line.partition(":") for line in lines) if user in known}
    if not named and (len(lines) != 1 or not text.strip()):
        raise ValueError("has no line USER:PASSWORD of a user in the list, and is no password of one line")
    return named or dict.fromkeys(users, lines[0])


def _parse_url(url: str) -> UrlTemplate:
    scheme, _, rest = url.partition("://")
    user, at, place = rest.rpartition("@")
    try:
        parts = urlsplit(f"{scheme}://{place}")
        port = parts.port
        # Before %u and %n are known a percent sign is a byte where two hexadecimal digits follow.
        user = unquote(user, errors="strict")
    except ValueError as error:
        raise ValueError(f"is no URL of accounts: {error}") from None
    if ":" in user:
        raise ValueError("has a password, which other users could see: leave it to --password-file or the prompt")
    if not at or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("is no imaps://%u@HOST/ or imap://%u@HOST/")
    if _CONTROL.search(user):
        raise ValueError("has a control character")
    _check_variables(user)
    if not {"u", "n"} & set(_variables(user)):
        raise ValueError("names no user: %u or %n must stand before the @")
    return UrlTemplate(parts.hostname, port or IMAP_PORTS[scheme], scheme == "imaps", user)


def _check_variables(text: str) -> None:
    for name in _VARIABLE.findall(text):
        if name not in {*_PATTERNS, "%"}:
            raise ValueError(f"has %{name}: the variables are %u (whole name), %n (before the @) and %d (domain)")


def _variables(text: str) -> Sequence[str]:
    return [name for name in _VARIABLE.findall(text) if name != "%"]


def _fill(text: str, values: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda match: values.get(match[1], "%"), text)


def _pattern(segment: str, known: Mapping[str, str]) -> str:
    """Return the pattern of the names that a segment stands for; its groups are the variables not yet known."""
    pattern, position, groups = "", 0, set[str]()
    for match in _VARIABLE.finditer(segment):
        pattern += re.escape(segment[position : match.start()])
        position, name = match.end(), match[1]
        if name == "%":
            pattern += "%"
        elif name in known:
            pattern += re.escape(known[name])
        elif name in groups:
            pattern += f"(?P={name})"
        else:
            groups.add(name)
            pattern += f"(?P<{name}>{_PATTERNS[name]})"
    return pattern + re.escape(segment[position:])
