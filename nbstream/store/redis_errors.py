"""What redis-py raises, as the errors of this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis.exceptions import AuthenticationError, OutOfMemoryError, RedisError, ResponseError

from nbstream.errors import StoreForbids, StoreRefuses, StoreUnavailable

# Redis answers this to a write while it cannot write to its disk, and 6.2 to a script while its memory is full.
_WRITE_REFUSALS = ("MISCONF", "OOM command not allowed")


@contextmanager
def store_errors() -> Iterator[None]:
    """Raise ``StoreUnavailable``, or a kind of it, in place of what redis-py raises.

    The original error is the cause of the new one, for the log.
    """
    try:
        yield
    except (RedisError, OSError) as error:
        raise store_error(error) from error


def store_error(error: RedisError | OSError) -> StoreUnavailable:
    """The error that stands for an error of redis-py."""
    if isinstance(error, AuthenticationError) or isinstance(error.__cause__, AuthenticationError):
        return StoreForbids("Redis refuses the password, or wants one: see redis.url and redis.password_file")
    refused = isinstance(error, ResponseError) and any(refusal in str(error) for refusal in _WRITE_REFUSALS)
    kind = StoreRefuses if refused or isinstance(error, OutOfMemoryError) else StoreUnavailable
    return kind(f"Redis: {type(error).__name__}: {error}")
