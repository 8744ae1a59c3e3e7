"""Values from the command line: each function returns the value, or says in an error what the text is not."""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from nbstream.server.moments import parse_moment

if TYPE_CHECKING:
    from nbstream.policy.address_patterns import SenderPattern
    from nbstream.server.imap import ImapAccount
    from nbstream.training.template import ImapFolder, PathTemplate


_MAX_NAME_CHARACTERS = 100


def message_id(text: str) -> str:
    """Return the id of a message."""
    if not re.fullmatch(r"[a-z2-7]{24}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no id: 24 characters of a-z and 2-7")
    return text


def message_id_prefix(text: str) -> str:
    """Return the id of a message, or its first characters."""
    if not re.fullmatch(r"[a-z2-7]{1,24}", text):
        raise argparse.ArgumentTypeError(f"{text!r} begins no id: 24 characters of a-z and 2-7")
    return text


class ClassNames(tuple[str, ...]):
    """The classes that a shell offers; it contains each name that a class may have, and the settings say more."""

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        """Return whether a class may have this name."""
        return isinstance(name, str) and re.fullmatch(r"[a-z][a-z0-9-]{0,30}", name) is not None


CLASS_NAMES = ClassNames(("spam", "ham"))


def mail_address(text: str) -> str:
    """Return a mail address of printable ASCII, without display name and angle brackets."""
    if not re.fullmatch(r"[!-;=?A-~]{1,64}@[!-;=?A-~]{1,253}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no mail address such as ann@example.org")
    return text


def own_model_name(text: str) -> str:
    """Return the name of an own model."""
    from nbstream.policy.own_models.names import is_own_model_name  # noqa: PLC0415 - only this argument needs it

    if not is_own_model_name(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name of an own model")
    return text


def sender(text: str) -> SenderPattern:
    """Return the sender of an entry of a list."""
    from nbstream.policy.address_patterns import SenderPattern  # noqa: PLC0415 - only this argument needs it

    try:
        return SenderPattern.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"the sender {error}") from None


def person(text: str) -> str:
    """Return the name of somebody, an address for one, as it is to stand in the history."""
    if not text or len(text) > _MAX_NAME_CHARACTERS or not text.isprintable():
        raise argparse.ArgumentTypeError(f"a name has 1 to {_MAX_NAME_CHARACTERS} printable characters")
    return text


def nonempty_path(text: str) -> str:
    """Return a path. An empty one, such as a shell variable that is not set, would mean the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("a path is empty")
    return text


def file_path(text: str) -> Path:
    """Return the path of one file, which may not be empty either."""
    return Path(nonempty_path(text))


def imap_folder(text: str) -> ImapFolder:
    """Return a folder of an IMAP server."""
    from nbstream.training.template import parse_imap_url  # noqa: PLC0415 - only this argument needs it

    try:
        return parse_imap_url(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"the URL {error}") from None


def mailbox_template(text: str) -> PathTemplate | ImapAccount:
    """Return the template of the mailboxes of a site."""
    from nbstream.training.template import parse_template  # noqa: PLC0415 - only this argument needs it

    try:
        return parse_template(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"the template {error}") from None


def regime_name(text: str) -> str:
    """Return the name of a regime of ``evaluate``."""
    from nbstream.evaluation.regimes import parse_regime  # noqa: PLC0415 - only this argument needs it

    try:
        parse_regime(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is none of immediate, delayed:N, errors, unsure, inbox, inbox:P,Q,DELAY, spam-only, "
            "spam-only:P,DELAY,KEEP, first:N, none"
        ) from None
    return text


def fraction(text: str) -> float:
    """Return a number from 0 to 1."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to 1")
    return number


def whole_number(text: str) -> int:
    """Return a whole number that is not negative."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


def timestamp(text: str) -> float:
    """Return a moment in seconds since the epoch, from an age or an ISO 8601 time (local without an offset)."""
    try:
        return parse_moment(text, time.time())
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
