"""Naive Bayes: the classifier of the filter and four event models for programs, without I/O.

The four classes below are the public part; see ``event_models`` for their formulas. They are loaded when somebody
first uses one: the settings need names of this package, and no numpy.
"""

__all__ = ["BernoulliNB", "CategoricalNB", "Evidence", "GaussianNB", "MultinomialNB"]


def __getattr__(name: str) -> object:
    """Return a public name, see PEP 562; their types stand in ``__init__.pyi``."""
    if name in __all__:
        from nbstream.bayes import event_models  # noqa: PLC0415 - needed where a public name is, and only then

        return getattr(event_models, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
