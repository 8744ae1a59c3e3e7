"""nbstream: a spam filter daemon with an online naive Bayes, and the same filter for programs.

The public API is the names below, ``nbstream.errors``, and ``nbstream.bayes`` with four naive Bayes classifiers
for any counts. Everything else is private and may change with any version. A public name is loaded when somebody
first uses it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbstream.spam_filter import (
        AsyncSpamFilter,
        CheckResult,
        Clue,
        Kind,
        Label,
        LessonResult,
        Outcome,
        SpamFilter,
        Verdict,
    )

__version__ = "1.0.0"

__all__ = [
    "AsyncSpamFilter",
    "CheckResult",
    "Clue",
    "Kind",
    "Label",
    "LessonResult",
    "Outcome",
    "SpamFilter",
    "Verdict",
    "__version__",
]


if not TYPE_CHECKING:  # else a misspelt name would have a type

    def __getattr__(name: str) -> object:
        """Return a public name; see PEP 562."""
        if name in __all__:
            from nbstream import spam_filter  # noqa: PLC0415 - numpy and more take some tenths of a second

            return getattr(spam_filter, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
