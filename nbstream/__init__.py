"""nbstream: a spam filter daemon with an online naive Bayes, and the same filter for programs.

The public API is the names below, ``nbstream.errors``, and ``nbstream.bayes`` with four naive Bayes classifiers
for any counts. Everything else is private and may change with any version. A public name is loaded when somebody
first uses it.
"""

TYPE_CHECKING = False  # type checkers take it for True; to import typing takes a hundredth of a second

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
            from importlib import import_module  # noqa: PLC0415 - needed where a public name is, and only then

            return getattr(import_module("nbstream.spam_filter"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
