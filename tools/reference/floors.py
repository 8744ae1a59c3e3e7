"""The floors of the house on the page about the architecture, from the imports of the package."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from textwrap import wrap

PACKAGE = Path(__file__).parents[2] / "nbstream"
PAGE = PACKAGE.parent / "docs/explanation/architecture.md"

_WIDTH = 100


def page() -> str:
    """Return the page with the picture of the present floors."""
    text = PAGE.read_text(encoding="utf-8")
    return re.sub(r"(?<=<!-- floors -->\n```\n).*?(?=```\n)", picture(), text, flags=re.DOTALL)


def picture() -> str:
    """Return the floors, the highest first: each folder with its summary, and the modules beside them."""
    floors = defaultdict(list)
    for name in sorted(_parts()):
        floors[floor_of(name)].append(name)
    lines = []
    for number in sorted(floors, reverse=True):
        folders = [name for name in floors[number] if (PACKAGE / name).is_dir()]
        modules = [name for name in floors[number] if name not in folders]
        rows = [(name, _summary(name)) for name in folders]
        rows += [("", f"beside them: {', '.join(modules)}")] if modules else []
        for i, (name, text) in enumerate(rows):
            head, *more = wrap(text, _WIDTH)
            lines.append(f"{number if i == 0 else '':>2}  {name:<15}{head}")
            lines += [" " * 19 + line for line in more]
    return "".join(f"{line}\n" for line in lines)


@cache
def floor_of(name: str) -> int:
    """Return the floor of a folder or module of the package: one above all that it imports, the lowest being 1."""
    return 1 + max((floor_of(other) for other in _imported(name)), default=0)


def _parts() -> set[str]:
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    return folders | {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}


def _imported(name: str) -> set[str]:
    folder = PACKAGE / name
    files = folder.rglob("*.py") if folder.is_dir() else [folder.with_suffix(".py")]
    names = set()
    for node in (node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {one.split(".")[1] for one in names if one.startswith("nbstream.")} & _parts() - {name}


def _summary(name: str) -> str:
    """Return the first sentence of what a folder says of itself."""
    text = ast.get_docstring(ast.parse((PACKAGE / name / "__init__.py").read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("``", "").partition(". ")[0].removesuffix(".")
