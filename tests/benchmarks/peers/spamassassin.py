"""SpamAssassin with its own rules and Bayes in one process (spamassassin.pl); no plugin asks the network.

Its minimum of 200 messages of each class is lowered to 50, which the taught messages reach.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.benchmarks.peers.inbox import Labelled
from tests.benchmarks.speed.processes import CannotMeasure, output, program

_SCRIPT = Path(__file__).with_suffix(".pl")
_PLUGINS = (
    "AutoLearnThreshold", "Bayes", "BodyEval", "Check", "FreeMail", "HTMLEval", "HTTPSMismatch", "HeaderEval",
    "ImageInfo", "MIMEEval", "MIMEHeader", "RelayEval", "ReplaceTags", "URIDetail", "URIEval", "VBounce",
    "WLBLEval",
)  # fmt: skip
_SETTINGS = """\
use_bayes 1
bayes_path {folder}/bayes
bayes_auto_learn {autolearn:d}
bayes_auto_expire 0
bayes_learn_to_journal 0
bayes_min_ham_num 50
bayes_min_spam_num 50
skip_rbl_checks 1
dns_available no
"""


class SpamAssassin:
    """The process, which answers each line with one."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input: IO[str] = process.stdin
        self._output: IO[str] = process.stdout
        self._log = log

    def learn_all(self, messages: Sequence[Labelled]) -> None:
        """Learn messages in their order."""
        for label, path in messages:
            self.learn(label, path)

    def learn(self, label: str, path: Path) -> None:
        """Learn one message; what was learned of it automatically is taken back by SpamAssassin itself."""
        self._ask(label, path)

    def check(self, paths: Sequence[Path]) -> list[bool]:
        """Return of each message whether its score reaches the required one."""
        return [self._ask("check", path) == "spam" for path in paths]

    def _ask(self, command: str, path: Path) -> str:
        self._input.write(f"{command} {path}\n")
        self._input.flush()
        answer = self._output.readline().strip()
        if not answer:
            raise CannotMeasure(f"SpamAssassin ended: {self._log.read_text(errors='replace')[-300:]}")
        return answer


@contextmanager
def spamassassin(folder: Path, *, autolearn: bool) -> Iterator[SpamAssassin]:
    """Run an untaught SpamAssassin with all its files in ``folder``. Raises ``CannotMeasure``."""
    perl, rules = program("perl", "perl"), _rules()
    site, log = folder / "site", folder / "spamassassin.log"
    site.mkdir()
    (site / "init.pre").write_text(
        "".join(f"loadplugin Mail::SpamAssassin::Plugin::{name}\n" for name in _PLUGINS)
    )
    (site / "local.cf").write_text(_SETTINGS.format(folder=folder, autolearn=autolearn))
    words: list[str | Path] = [perl, _SCRIPT, rules, site, folder]
    with (
        log.open("w") as errors,
        subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        yield SpamAssassin(process, log)


def version() -> str:
    """Return the version as the program prints it."""
    return output(program("sa-learn", "spamassassin"), "--version").splitlines()[0]


def _rules() -> Path:
    """The folder of the rules that came with the program."""
    rules = Path(program("sa-learn", "spamassassin")).parents[1] / "share" / "spamassassin"
    if not rules.is_dir():
        raise CannotMeasure(f"no {rules}: apt install spamassassin")
    return rules
