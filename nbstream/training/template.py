"""The template of a site's mailboxes, in the variables of Dovecot: ``/var/mail/%d/%n``, ``imaps://%u@mail.example.org/``.

Rules: pure. ``%u`` is the whole name of the user, ``%n`` what stands before its ``@``, ``%d`` the domain, and
``%%`` a percent sign. In a URL ``%`` and two hexadecimal digits are a byte. No user's name leads out of the place
of a variable: it has no slash, and begins with no dot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from nbstream.server.imap import IMAP_PORTS, ImapAccount

_VARIABLE = re.compile(r"%(.?)", re.DOTALL)
_PATTERNS = {"u": r"([^/]+)", "n": r"([^/@]+)", "d": r"([^/@]+)", "%": "%"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MAX_USER_CHARACTERS = 320


@dataclass(frozen=True, slots=True)
class PathTemplate:
    """A template of paths: ``root`` has no variable, and ``segments`` are the names below it."""

    root: Path
    segments: tuple[str, ...]

    def names_of(self, user: str) -> tuple[str, ...]:
        """Return the names below ``root`` that lead to the mailboxes of a user."""
        return tuple(_fill(segment, user_variables(user)) for segment in self.segments)

    def matches(self, position: int, name: str) -> bool:
        """Return whether some user may have this name at ``position``."""
        return re.fullmatch(_pattern(self.segments[position]), name) is not None

    def user_at(self, names: tuple[str, ...]) -> str | None:
        """Return whose mailboxes are at these names, None where they are nobody's."""
        match = re.fullmatch("/".join(map(_pattern, self.segments)), "/".join(names))
        if match is None:
            return None
        variables = [variable for segment in self.segments for variable in _variables(segment)]
        user = user_of(dict(zip(variables, match.groups(), strict=True)))
        return user if self.names_of(user) == names else None  # each variable has one value


def account_of(template: ImapAccount, user: str) -> ImapAccount:
    """Return the login of a user by a template, whose own user may name a master user, such as ``%u*master``."""
    return replace(template, user=_fill(template.user, user_variables(user)))


def parse_template(text: str) -> PathTemplate | ImapAccount:
    """Return the template in ``text``. Raises ``ValueError``, which says what is wrong and shows no password."""
    if text.startswith(tuple(f"{scheme}://" for scheme in IMAP_PORTS)):
        return _parse_url(text)
    if re.match(r"\w+:", text):
        raise ValueError("is no path and no imaps:// URL: of Dovecot's mail_location give the path alone")
    _check_variables(text, "in it")
    segments = [part for part in text.split("/") if part]
    if not text.startswith("/") or ".." in segments:
        raise ValueError("must be a whole path that begins with /, without ..")
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


def _read_imap_url(url: str, form: str) -> tuple[ImapAccount, str]:
    """Return the account of a URL (RFC 5092), and the decoded path behind it.

    User and path are percent-encoded UTF-8. Raises ``ValueError``, which says what is wrong, ``form`` what is
    allowed; it shows no password.
    """
    scheme, _, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    login, _, server = authority.rpartition("@")
    try:
        parts = urlsplit(f"{scheme}://{server}")
        port = parts.port
        # Before %u and %n are known a percent sign is a byte where two hexadecimal digits follow.
        user, decoded = (unquote(text, errors="strict") for text in (login, path))
    except ValueError as error:
        raise ValueError(f"is no URL: {error}") from None
    if ":" in login:
        raise ValueError("has a password, which other users could see: leave it to --password-file or the prompt")
    if scheme not in IMAP_PORTS or not parts.hostname or not user or re.search("[?#]", server + path):
        raise ValueError(f"is no {form}")
    if _CONTROL.search(user + decoded):
        raise ValueError("has a control character")
    return ImapAccount(parts.hostname, port or IMAP_PORTS[scheme], scheme == "imaps", user), decoded


@dataclass(frozen=True, slots=True)
class ImapFolder:
    """A folder of an account, by its name as people write it."""

    account: ImapAccount
    name: str

    def __str__(self) -> str:
        return f"{self.account}/{quote(self.name)}"


def parse_imap_url(url: str) -> ImapFolder:
    """Return the folder of a URL. Raises ValueError, which says what is wrong, and shows no password."""
    form = "imaps://USER@HOST/FOLDER or imap://USER@HOST/FOLDER, percent-encoded"
    account, name = _read_imap_url(url, form)
    if not name:
        raise ValueError(f"is no {form}")
    return ImapFolder(account, name)


def _parse_url(url: str) -> ImapAccount:
    form = "imaps://%u@HOST/ or imap://%u@HOST/"
    account, path = _read_imap_url(url, form)
    if path.strip("/"):
        raise ValueError(f"is no {form}")
    _check_variables(account.user, "before the @")
    return account


def _check_variables(text: str, where: str) -> None:
    for name in _VARIABLE.findall(text):
        if name not in _PATTERNS:
            raise ValueError(f"has %{name}: the variables are %u (whole name), %n (before the @) and %d (domain)")
    if not {"u", "n"} & set(_variables(text)):
        raise ValueError(f"names no user: %u or %n must stand {where}")


def _variables(text: str) -> Sequence[str]:
    return [name for name in _VARIABLE.findall(text) if name != "%"]


def _fill(text: str, values: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda match: values.get(match[1], "%"), text)


def _pattern(segment: str) -> str:
    """Return the pattern of the names that a segment stands for, with a group for each of its variables."""
    texts = _VARIABLE.split(segment)  # every second one is the name of a variable
    hidden = r"(?!\.)" if segment.startswith("%") else ""
    return hidden + "".join(_PATTERNS[text] if i % 2 else re.escape(text) for i, text in enumerate(texts))
