"""What it takes to teach a site from its mailboxes, beside bogofilter on the same letters.

    python -m tests.benchmarks.mailboxes INDEX [--letters N] [--accounts N] [--peer]

A site of ``--accounts`` Maildirs is made of the messages of an index: spam lies in Junk, ham in Archive, and a
further copy of a message has an id and a word of its own. The Redis is the embedded one, as shipped. The first run
learns, the second one finds all learned. With ``--peer`` bogofilter learns all letters in bulk, between the two.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.speed.bench import messages

COMMAND = (sys.executable, "-P", "-m", "nbstream.cli")
_FOLDERS = {"spam": ".Junk", "ham": ".Archive"}


def main() -> None:
    """Make the site, and print a line for each run."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.mailboxes")
    parser.add_argument("index", type=Path)
    parser.add_argument("--letters", type=int, default=100_000)
    parser.add_argument("--accounts", type=int, default=60)
    parser.add_argument("--peer", action="store_true", help="bogofilter as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nbstream-mailboxes-") as folder:
        site, state = Path(folder, "mail"), Path(folder, "state")
        files = make_site(site, options.index, options.letters, options.accounts)
        config = Path(folder, "nbstream.yaml")
        config.write_text(f"state_dir: {state}\nlisteners: {{smtp: null, http: null}}\n")
        print(f"{options.letters:,} letters in {options.accounts} Maildirs", flush=True)
        learn = [*COMMAND, "learn", "-c", str(config), "--mailboxes", f"{site}/%u"]
        measure("plan alone", [*learn, "--plan"])
        measure("plan and lessons", [*learn, "--yes"])
        if options.peer:
            for label, option in (("spam", "-s"), ("ham", "-n")):
                names = "".join(f"{path}\n" for path in files[label])
                measure(f"bogofilter {option}, all {label}", ["bogofilter", "-d", folder, option, "-b"], names)
        measure("the same again", [*learn, "--yes"])


def make_site(site: Path, index: Path, letters: int, accounts: int) -> dict[str, list[Path]]:
    """Make the Maildirs, and return the files of each class."""
    files: dict[str, list[Path]] = {"spam": [], "ham": []}
    for account in range(accounts):
        for name in ("cur", *(f"{folder}/cur" for folder in _FOLDERS.values())):
            (site / f"u{account}" / name).mkdir(parents=True)
    stream = itertools.cycle(messages(index))
    for number, (label, path) in enumerate(itertools.islice(stream, letters)):
        letter = (
            site
            / f"u{number % accounts}"
            / _FOLDERS[label]
            / "cur"
            / f"{1_700_000_000 + number}.{number}.site:2,S"
        )
        raw = path.read_bytes()
        letter.write_bytes(b"Message-ID: <%d@site.example>\r\n%s\r\ncopy%d\r\n" % (number, raw, number))
        files[label].append(letter)
    return files


def measure(name: str, words: Sequence[str], standard_input: str = "") -> None:
    """Run a command, and print its wall time, its processor time with that of its children, and its last lines."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(words, input=standard_input, capture_output=True, text=True, check=False)
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - started
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{name}: {seconds:.0f} s, {used:.0f} s of processor time, exit code {done.returncode}")
    for line in (*done.stdout.splitlines()[-4:], *done.stderr.splitlines()[-2:]):
        print(f"    {line[:150]}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
