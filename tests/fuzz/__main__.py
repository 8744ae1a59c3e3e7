"""Coverage-guided fuzzing of everything that reads bytes from outside, with atheris.

    python -m tests.fuzz TARGET ... --seconds 600      (without a target: all of them, one after another)
    python -m tests.fuzz --list

Each target has a folder below ``.fuzz``. ``corpus`` has the inputs that reached something new, and a later run
begins with them; ``findings`` has the input at which a target ended. A finding becomes a test: its bytes go into
``findings`` of the target, and the fault gets a test of its own beside the code.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import resource
import subprocess
import sys
from pathlib import Path

from tests.fuzz.target import FuzzTarget, load_target, target_names

_FOLDER = Path(".fuzz")
_INPUT_SECONDS = 60
"""An input that takes longer is a finding. The machine may be slow, and the instrumented code is."""
_MEMORY_MB = 2048
_ROUND_SECONDS = 100
"""After this long a new process goes on with the corpus: atheris 3.0 itself loses up to 10 MB a second."""
_EXECUTIONS = re.compile(rb"stat::number_of_executed_units: *(\d+)")
_SHOWN_BYTES = 6000


def main() -> int:
    """Run targets, and print a line for each: executions, seconds of the processor, findings."""
    names = target_names()
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="fuzz targets with atheris")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="the targets; all of them without one")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default: 60)")
    parser.add_argument("--list", action="store_true", help="print the names of all targets")
    arguments = parser.parse_args()
    if arguments.list:
        print(*names, sep="\n")
        return 0
    if unknown := set(arguments.targets) - set(names):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if importlib.util.find_spec("atheris") is None:
        print("SKIPPED: atheris is not installed: pip install --editable '.[fuzz]' (Linux on x86_64 only)")
        return 0
    results = [run_target(name, arguments.seconds) for name in arguments.targets or names]
    return int(not all(results))


def run_target(name: str, seconds: int) -> bool:
    """Fuzz one target for ``seconds``, and return whether nothing was found."""
    folder = _FOLDER / name
    corpus, findings = folder / "corpus", folder / "findings"
    for needed in (corpus, findings):
        needed.mkdir(parents=True, exist_ok=True)
    before = set(findings.iterdir())
    target = load_target(name)
    _write_inputs(target, folder)
    processor_seconds, executions, status = _processor_seconds(), 0, 0
    for start in range(0, seconds, _ROUND_SECONDS):
        options = _options(target, folder, min(_ROUND_SECONDS, seconds - start))
        command = [sys.executable, "-m", "tests.fuzz.engine", name, *options, str(corpus)]
        with (folder / "log").open("wb") as log:
            status = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
        output = (folder / "log").read_bytes()
        executions += sum(int(number) for number in _EXECUTIONS.findall(output))
        if status:
            break
    minutes = (_processor_seconds() - processor_seconds) / 60
    ending = "ENDED BY A FINDING" if status else "nothing found"
    print(f"{name}: {executions:,} executions, {minutes:.1f} minutes of the processor, {ending}", flush=True)
    for finding in sorted(set(findings.iterdir()) - before):
        print(f"  {finding}: {finding.read_bytes()[:_SHOWN_BYTES]!r}")
    if status:
        error = output.rpartition(b"=== Uncaught Python exception")[2].partition(b"\n\n==")[0]
        print(error[:_SHOWN_BYTES].decode(errors="replace"), flush=True)
    return status == 0


def _options(target: FuzzTarget, folder: Path, seconds: int) -> list[str]:
    return [
        f"-max_total_time={seconds}",
        f"-max_len={target.max_bytes}",
        f"-timeout={_INPUT_SECONDS}",
        f"-rss_limit_mb={_MEMORY_MB}",
        f"-dict={folder / 'words'}",
        f"-artifact_prefix={folder / 'findings'}/",
        "-keep_seed=1",  # much of the work is done by patterns and in C, where no branch is seen
        "-print_final_stats=1",
        "-verbosity=1",
    ]


def _write_inputs(target: FuzzTarget, folder: Path) -> None:
    """Write the seeds and former findings into the corpus, and the words as libFuzzer reads them."""
    for number, seed in enumerate([*target.seeds, *target.findings]):
        (folder / "corpus" / f"seed-{number}").write_bytes(seed)
    lines = ['"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in target.words if word]
    (folder / "words").write_text("".join(lines))


def _processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main())
