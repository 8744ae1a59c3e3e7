"""The answers of the spamd listener to errors: an EX_ code of sysexits.h, and a text that does not say the cause.

Rules: a check that failed is answered with 75, whatever the error was. The client then passes the mail on unmarked
or defers it, by its own configuration; with another code it could return the mail to its sender. A lesson that
failed is answered with 75 too, unless the error is permanent and one that no request should end with.
"""

from __future__ import annotations

from nbstream.errors import NbstreamError
from nbstream.listeners.request_errors import is_request_error
from nbstream.wire.spamd import EX_SOFTWARE, EX_TEMPFAIL, SpamdRefusal

CHECK_FAILED = SpamdRefusal(EX_TEMPFAIL, "Temporary failure, please try again later")
"""The answer to a check that failed."""

_LESSON_PUT_OFF = SpamdRefusal(EX_TEMPFAIL, "Learning is not possible now, please try again later")
_LESSON_FAILED = SpamdRefusal(EX_SOFTWARE, "This failed, the log says why")


def lesson_refusal(error: Exception) -> SpamdRefusal:
    """Return the answer to a lesson that ended with ``error``."""
    if isinstance(error, NbstreamError) and not is_request_error(error) and not error.temporary:
        return _LESSON_FAILED
    return _LESSON_PUT_OFF
