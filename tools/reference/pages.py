"""All files that are made from the code, by their path in the repository."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tools.reference import commands, example, http_api, manual, metrics, schemas, settings, streams

ROOT = Path(__file__).parents[2]

# The page of the HTTP API reads the schemas, so they stand before it.
PAGES: Mapping[str, Callable[[], str]] = {
    "nbstream/listeners/http/schemas.json": schemas.text,
    "docs/reference/settings.md": settings.page,
    "docs/reference/metrics.md": metrics.page,
    "docs/reference/http-api.md": http_api.page,
    "docs/reference/streams.md": streams.page,
    "config/nbstream.yaml": example.text,
    "share/man/man1/nbstream.1": manual.nbstream_1,
    "share/man/man5/nbstream.yaml.5": manual.nbstream_yaml_5,
    "docs/reference/commands.md": commands.page,
}


def outdated() -> Iterator[tuple[Path, str]]:
    """The files that are not what the code would have them be, with the text that each should have, one by one."""
    for name, make in PAGES.items():
        file, text = ROOT / name, make()
        if not file.exists() or file.read_text() != text:
            yield file, text
