"""All files that are made from the code, by their paths in the repository."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tools.reference import commands, findings, floors, http_api, manual, metrics, settings, streams

ROOT = Path(__file__).parents[2]

PAGES: Mapping[str, Callable[[], str]] = {
    "docs/reference/settings.md": settings.page,
    "docs/reference/metrics.md": metrics.page,
    "docs/reference/http-api.md": http_api.page,
    "docs/reference/streams.md": streams.page,
    "docs/reference/findings.md": findings.page,
    "share/man/man1/nbstream.1": manual.nbstream_1,
    "share/man/man5/nbstream.yaml.5": manual.nbstream_yaml_5,
    "docs/reference/commands.md": commands.page,
    "docs/explanation/architecture.md": floors.page,
}


def outdated() -> Iterator[tuple[Path, str]]:
    """Yield each file that differs from what the code makes, with the text that it should have."""
    for name, make in PAGES.items():
        file, text = ROOT / name, make()
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            yield file, text
