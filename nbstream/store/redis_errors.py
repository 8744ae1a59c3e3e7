"""What redis-py raises, as the errors of this package, and what it says of the server.

The package redis is loaded where it is needed: a model in a file or in memory has none.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nbstream.errors import StoreForbids, StoreNotPrimary, StoreRefuses, StoreUnavailable

if TYPE_CHECKING:
    from redis.exceptions import RedisError

# Redis answers this to a write while it cannot write to its disk, while its memory is full (6.2 to a script), and
# while too few replicas follow it (min-replicas-to-write). The script that learns answers IMPORTING.
_WRITE_REFUSALS = ("MISCONF", "OOM command not allowed", "NOREPLICAS", "IMPORTING")

# The replies of a server that is not the primary (any more) or cannot serve now, by the class names of redis-py.
_LOSSES = {
    "ReadOnlyError": "readonly",
    "MovedError": "moved",
    "AskError": "ask",
    "TryAgainError": "tryagain",
    "ClusterDownError": "clusterdown",
    "MasterDownError": "masterdown",
    "BusyLoadingError": "loading",
    "AuthenticationError": "noauth",
}
# The same in the text of another error: Redis 6.2 puts the error of a command into that of its script, EXEC names
# why it was discarded, and UNBLOCKED ends a blocking command of a primary that becomes a replica.
_LOSS_TEXT = re.compile(
    r"(?:^|-|because of: )(READONLY|MOVED|ASK|TRYAGAIN|CLUSTERDOWN|MASTERDOWN|UNBLOCKED|NOREPLICAS)\b"
)


LOSS_REASONS = (*_LOSSES.values(), "unblocked", "noreplicas")
"""The reasons that ``loss_reason`` gives."""


@contextmanager
def store_errors() -> Iterator[None]:
    """Raise ``StoreUnavailable``, or a kind of it, in place of what redis-py raises.

    The original error is the cause of the new one, for the log.
    """
    from redis.exceptions import RedisError  # noqa: PLC0415 - see the top

    try:
        yield
    except (RedisError, OSError) as error:
        raise store_error(error) from error


@contextmanager
def readable_replies() -> Iterator[None]:
    """Raise ``StoreUnavailable`` in place of what Python raises where a reply has another form than that of Redis.

    This is for work that goes on for ever: what answers may be something else than Redis, or may be broken, and
    mail is not to wait for that. The text names the line that could not read it, for it may be a fault of ours.
    """
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        *_, (frame, line) = traceback.walk_tb(error.__traceback__)
        place = f"{frame.f_code.co_filename.rpartition('/')[2]}:{line}"
        raise StoreUnavailable(f"Redis: a reply cannot be read ({place}): {error!r:.300}") from error


def store_error(error: RedisError | OSError) -> StoreUnavailable:
    """The error that stands for an error of redis-py."""
    from redis.exceptions import AuthenticationError, OutOfMemoryError, ResponseError  # noqa: PLC0415 - see the top

    if isinstance(error, AuthenticationError) or isinstance(error.__cause__, AuthenticationError):
        return StoreForbids(
            "Redis or a Sentinel refuses the password, or wants one: see redis.url and redis.password_file"
        )
    text = f"Redis: {type(error).__name__}: {error}"
    if isinstance(error, OutOfMemoryError):
        return StoreRefuses(text)
    if isinstance(error, ResponseError) and any(refusal in str(error) for refusal in _WRITE_REFUSALS):
        return StoreRefuses(text)
    is_of_server = isinstance(error, ResponseError) and loss_reason(error) is not None
    return (StoreNotPrimary if is_of_server else StoreUnavailable)(text)


def loss_reason(error: RedisError) -> str | None:
    """Why a reply means that the server is not the primary, or cannot serve now, in one word; else None."""
    from redis.exceptions import ResponseError  # noqa: PLC0415 - see the top

    if reason := _LOSSES.get(type(error).__name__):
        return reason
    code = _LOSS_TEXT.search(str(error)) if isinstance(error, ResponseError) else None
    return code[1].lower() if code else None
