"""What holds for the table of every edge that answers errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nbstream import errors
from nbstream.errors import NbstreamError
from nbstream.training.messages import SkippedMail


def error_classes(kind: type[NbstreamError] = NbstreamError) -> Iterator[type[NbstreamError]]:
    """All classes of errors of the package, ``kind`` first."""
    yield kind
    for below in kind.__subclasses__():
        if below.__module__.startswith("nbstream."):
            yield from error_classes(below)


def classes_without_row(table: Mapping[type[NbstreamError], object]) -> list[str]:
    """The classes for which nobody has decided: neither they nor a parent below ``NbstreamError`` have a row."""
    return [
        kind.__name__
        for kind in error_classes()
        if kind is not NbstreamError
        and not (set(kind.__mro__[: kind.__mro__.index(NbstreamError)]) & table.keys())
    ]


def example(kind: type[NbstreamError], text: str) -> NbstreamError:
    """An error of this class with this text."""
    if issubclass(kind, errors.RelayRefused):
        return kind(550, text)
    return kind("ann: Junk", text) if issubclass(kind, SkippedMail) else kind(text)
