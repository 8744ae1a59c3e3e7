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

__version__: str

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
