"""The reference of the findings: the names of the checks of ``nbstream doctor``, and remedies for ``/readyz``."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping

import nbstream.doctor
import nbstream.listeners
from nbstream.daemon import health, model_lookups
from nbstream.doctor.command import CHECKS
from nbstream.findings import Finding
from nbstream.server import probe
from tools.reference.markup import NOTICE, table


def page() -> str:
    """Return the page as Markdown: the names of the checks by subject, and the sentences of ``/readyz``."""
    kinds = finding_kinds()
    subjects: dict[str, list[str]] = {}
    for name in dict.fromkeys(kind.check for kind in kinds.values()):
        subjects.setdefault(name.partition(".")[0], []).append(f"`{name}`")
    checks = [(subject, ", ".join(names)) for subject, names in subjects.items()]
    of_daemon = [kind for name, kind in kinds.items() if name.startswith("health.")]
    degraded = [(_plain(kind.what), _plain(kind.remedy)) for kind in of_daemon]
    tables = table(("subject", "checks"), checks), table(("what it says", "remedy"), degraded)
    return NOTICE + _INTRODUCTION.format(*tables)


def finding_kinds() -> dict[str, Finding]:
    """Return all kinds of findings by the names of their constants, such as ``redis_server.SLOW``."""
    return dict(_kinds())


def _kinds() -> Iterator[tuple[str, Finding]]:
    seen: set[int] = set()
    for path in _modules():
        module = path.rpartition(".")[2]
        for name, value in vars(importlib.import_module(path)).items():
            named = {name: value}
            if isinstance(value, Mapping) and name.isupper():
                named = {f"{name}.{getattr(key, 'name', key)}": kind for key, kind in value.items()}
            for full_name, kind in named.items():
                if isinstance(kind, Finding) and id(kind) not in seen:
                    seen.add(id(kind))
                    yield f"{module}.{full_name}", kind


def _modules() -> list[str]:
    """Return the modules: of the checks in their order, the others, the probes, and those of the daemon."""
    of_checks = [check.examine.__module__ for check in CHECKS]
    others = [module.name for module in pkgutil.iter_modules(nbstream.doctor.__path__, "nbstream.doctor.")]
    rooms = pkgutil.walk_packages(nbstream.listeners.__path__, "nbstream.listeners.")
    probes = [probe.__name__, *(module.name for module in rooms if module.ispkg)]
    of_daemon = [module.__name__ for module in (model_lookups, health)]
    return list(dict.fromkeys([*of_checks, *others, *probes, *of_daemon]))


def _plain(text: str) -> str:
    """Return a sentence with placeholders of one word, such as ``{share}`` for ``{all.share:.0%}``."""
    return re.sub(r"\{(?:\w+\.)?(\w+)[^}]*\}", r"{\1}", text)


_INTRODUCTION = """
# Findings of nbstream doctor

[`nbstream doctor`](../guides/doctor.md) prints each problem and warning with its remedy, and so does the page. The
names of the checks are a contract, for scripts that read `--json`; the sentences may be improved.

{}
## Degraded

`/readyz` says what is degraded, without the remedy. `{{...}}` stands for a value.

{}"""
