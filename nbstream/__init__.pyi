from nbstream.spam_filter import (
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
