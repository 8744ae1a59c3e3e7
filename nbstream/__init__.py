"""nbstream: a spam filter daemon with an online naive Bayes, and the same filter for programs.

The public API is the names below, ``nbstream.errors``, and ``nbstream.bayes`` with four naive Bayes classifiers
for any counts. Everything else is private and may change with any version. A public name is loaded when somebody
first uses it.
"""

__version__ = "1.0.0"

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


def __getattr__(name: str) -> object:
    """Return a public name, see PEP 562; their types stand in ``__init__.pyi``."""
    if name in __all__:
        # Imported where a public name is needed, and only then. What is imported is no garbage: to look for some
        # meanwhile takes a tenth of the time.
        import gc  # noqa: PLC0415 - see above
        from importlib import import_module  # noqa: PLC0415 - see above

        collects = gc.isenabled()
        gc.disable()
        try:
            return getattr(import_module("nbstream.spam_filter"), name)
        finally:
            if collects:
                gc.enable()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
