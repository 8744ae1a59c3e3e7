"""The layers of the package: imports point down, and the pure packages know nothing of the world outside."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import nbstream

PACKAGE = Path(nbstream.__file__).parent

# The floors of the house, lowest first. A folder imports from lower floors only, and folders on one floor do not
# import each other; the small modules beside them count as folders.
LAYERS = [
    {
        "addresses",
        "durable_files",
        "errors",
        "findings",
        "json_text",
        "mail",
        "numpy_on_demand",
        "system_users",
        "threads",
    },
    {"engine", "file_locks", "interrupts", "metrics", "settings", "terminal", "tokens"},
    {"bayes", "logs"},
    {"policy"},
    {"store"},
    {"delivery", "filter"},
    {"correspondents", "evaluation", "server"},
    {"listeners", "training", "web"},
    {"daemon"},
    {"cli", "demo", "doctor", "spam_filter"},
]

# Each has a room of its own: it imports none of the others. A guest is an API that the HTTP listener serves.
GUESTS_OF_HTTP = {"rspamd"}
PROTOCOLS = {path.parent.name for path in (PACKAGE / "listeners").glob("*/__init__.py")} - GUESTS_OF_HTTP

PURE = {"mail", "tokens", "bayes", "policy"}
WORLD = {
    "asyncio",
    "socket",
    "redis",
    "aiosmtpd",
    "aiohttp",
    "prometheus_client",
    "yaml",
    "pydantic",
}

MODULES = sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    """The dotted name of a module; that of the package for an ``__init__.py``."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


NAMES = {module_name(path): path for path in MODULES}


@cache
def imported(path: Path) -> tuple[str, ...]:
    """The dotted names that a module imports anywhere in it, under ``TYPE_CHECKING`` and in functions as well."""
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part(name: str, parent: str) -> str:
    """The name of the module or package directly in ``parent`` that ``name`` is in; empty where there is none."""
    return name.removeprefix(f"{parent}.").split(".")[0] if name.startswith(f"{parent}.") else ""


def ranks(layers: list[set[str]]) -> dict[str, int]:
    return {name: number for number, layer in enumerate(layers) for name in layer}


def imports_that_point_up(path: Path, parent: str, layers: list[set[str]]) -> list[str]:
    """The imports of a module that the layers of the package ``parent`` forbid."""
    rank, own = ranks(layers), part(module_name(path), parent)
    if not own:
        return []
    others = ((name, part(name, parent)) for name in imported(path))
    return [name for name, other in others if other in rank and other != own and rank[other] >= rank[own]]


def circles(graph: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The largest sets of modules of which each reaches each other one by imports."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            new = graph[waiting.pop()] - seen
            seen |= new
            waiting.extend(new)
        return seen

    reach = {name: reached(name) for name in graph}
    return {
        frozenset(other for other in reach[name] if name in reach[other]) for name in graph if name in reach[name]
    }


def import_graph() -> dict[str, set[str]]:
    """What each module imports of the package; a name that is no module stands for the module it comes from."""

    def of(path: Path) -> set[str]:
        names = {name if name in NAMES else name.rpartition(".")[0] for name in imported(path)}
        return (names & NAMES.keys()) - {module_name(path)}

    # The package itself has the public names, which are loaded when somebody first uses them.
    return {name: of(path) if name != "nbstream" else set() for name, path in NAMES.items()}


def test_every_package_has_its_layer() -> None:
    assert {part(name, "nbstream") for name in NAMES} - {""} == set(ranks(LAYERS))


def test_no_other_modules_stand_at_the_top() -> None:
    assert {path.stem for path in MODULES if path.parent == PACKAGE} == {
        "__init__",
        "addresses",
        "durable_files",
        "errors",
        "file_locks",
        "findings",
        "interrupts",
        "json_text",
        "logs",
        "metrics",
        "numpy_on_demand",
        "spam_filter",
        "system_users",
        "terminal",
        "threads",
    }


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    assert imports_that_point_up(path, "nbstream", LAYERS) == []


def test_listeners_do_not_import_each_other() -> None:
    rooms = [PROTOCOLS, GUESTS_OF_HTTP]
    assert [name for path in MODULES for name in imports_that_point_up(path, "nbstream.listeners", rooms)] == []


def test_no_modules_import_each_other() -> None:
    assert circles(import_graph()) == set()


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in MODULES
        if (part(module_name(path), "nbstream") in PURE or path.name == "codec.py")
        and path.name != "settings.py"  # a section of the settings is data, whose values pydantic checks
    ],
    ids=lambda path: str(path.relative_to(PACKAGE)),
)
def test_the_pure_packages_do_no_io(path: Path) -> None:
    assert not {name.split(".")[0] for name in imported(path)} & WORLD
