"""SpamAssassin's spamd with nothing but its Bayes: one child, no rules, no network, a database of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.speed.bench import Labelled
from tests.benchmarks.speed.processes import (
    CannotMeasure,
    Served,
    free_port,
    listens,
    output,
    program,
    run_quietly,
    served,
)

_PLUGINS = """\
loadplugin Mail::SpamAssassin::Plugin::Check
loadplugin Mail::SpamAssassin::Plugin::Bayes
"""
_SETTINGS = """\
use_bayes 1
use_learner 1
bayes_path {folder}/bayes/bayes
bayes_file_mode 0777
bayes_auto_learn 0
bayes_auto_expire 0
bayes_learn_to_journal 0
skip_rbl_checks 1
dns_available no
"""
_RULES = """\
body BAYES_00 eval:check_bayes('0.00', '0.5')
body BAYES_99 eval:check_bayes('0.5', '1.00')
tflags BAYES_00 learn
tflags BAYES_99 learn
score BAYES_00 -5
score BAYES_99 6
"""


class SaLearn:
    """sa-learn with its files in ``folder``; ``database``, which it copies, is made if it is missing."""

    def __init__(self, folder: Path, database: Path, messages: Sequence[Labelled]) -> None:
        self._program = program("sa-learn", "spamassassin")
        self.options = _write_configuration(folder)
        if not database.exists():
            _learn(self._program, self.options, messages, folder)
            shutil.copytree(folder / "bayes", database)
        shutil.copytree(database, folder / "bayes", dirs_exist_ok=True)

    def learn_mbox(self, label: str, mbox: Path) -> None:
        """Learn all messages of a mailbox."""
        run_quietly(self._program, *self.options, f"--{label}", "--mbox", mbox)


@contextmanager
def spamd(folder: Path, database: Path, messages: Sequence[Labelled]) -> Iterator[tuple[Served, str]]:
    """Run a taught spamd; ``database`` is made if it is missing. Yields the server and its ``HOST:PORT``."""
    program_path = program("spamd", "spamd")
    options = SaLearn(folder, database, messages).options
    for path in (folder / "bayes", *(folder / "bayes").iterdir()):  # as root it checks as nobody
        path.chmod(0o777)
    port = free_port()
    only = ["--max-children=1", "--min-children=1", "--min-spare=1", "--max-spare=1"]
    words = [program_path, f"--port={port}", "--listen=127.0.0.1", "--local", "--nouser-config", *only, *options]
    words += [f"--helper-home-dir={folder}", "--syslog=stderr", f"--pidfile={folder}/spamd.pid"]
    with served(words, folder / "spamd.log", folder) as server:
        server.wait_for(lambda: listens(port))
        yield server, f"127.0.0.1:{port}"


def version() -> str:
    """Return the version as the program prints it."""
    return output(program("spamd", "spamd"), "-V").splitlines()[0]


def _write_configuration(folder: Path) -> list[str]:
    """Write the configuration, and return the options that name it."""
    for name in ("site", "rules", "bayes"):
        (folder / name).mkdir()
    (folder / "site" / "init.pre").write_text(_PLUGINS)
    (folder / "site" / "local.cf").write_text(_SETTINGS.format(folder=folder))
    (folder / "rules" / "bayes.cf").write_text(_RULES)
    return [f"--siteconfigpath={folder}/site", f"--configpath={folder}/rules"]


def _learn(learner: str, options: Sequence[str], messages: Sequence[Labelled], folder: Path) -> None:
    for label in ("spam", "ham"):
        names = folder / f"{label}.txt"
        names.write_text("".join(f"{path}\n" for message_label, path in messages if message_label == label))
        text = output(learner, *options, "--no-sync", f"--{label}", "-f", names, seconds=200.0)
        if "Learned tokens" not in text:
            raise CannotMeasure(f"sa-learn: {text.strip()[-200:]}")
    output(learner, *options, "--sync", seconds=60.0)
