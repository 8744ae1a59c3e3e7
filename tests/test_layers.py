"""The house: imports point down, and the core knows nothing of the world outside."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import nbstream

PACKAGE = Path(nbstream.__file__).parent

# Lowest first; a module may import modules of its own layer's folder and of layers before it.
LAYERS = [
    {"errors"},
    {"mail"},
    {"tokens"},
    {"bayes"},
    {"policy"},
    {"store"},
    {"filter"},
    {"wire"},
    {"relay"},
    {"listeners"},
    {"model_metrics", "first_score_metrics"},
    {"metrics", "logs"},
    {"stream_metrics"},
    {"config"},
    {"assembly"},
    {"evaluation"},
    {"reloading", "beside", "doors", "http_door"},
    {"serving"},
    {"commands", "arguments"},
    {"usage"},
    {"cli"},
]
RANK = {name: number for number, layer in enumerate(LAYERS) for name in layer}

PURE = {"mail", "tokens", "bayes", "policy", "wire"}
WORLD = {
    "asyncio",
    "socket",
    "redis",
    "aiosmtpd",
    "aiosmtplib",
    "aiohttp",
    "prometheus_client",
    "yaml",
    "pydantic",
}

MODULES = sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    """The top-level name of a module inside the package; empty for the package itself."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_module_has_a_place_in_the_house() -> None:
    assert {room(path) for path in MODULES} - {""} == set(RANK)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    own = room(path)
    for name in imported(path):
        parts = name.split(".")
        if parts[0] != "nbstream" or len(parts) < 2 or parts[1] not in RANK or not own:
            continue
        assert parts[1] == own or RANK[parts[1]] < RANK[own], f"{own} may not import {name}"


@pytest.mark.parametrize("path", [path for path in MODULES if room(path) in PURE], ids=lambda path: path.stem)
def test_the_pure_core_does_no_io(path: Path) -> None:
    assert not {name.split(".")[0] for name in imported(path)} & WORLD
