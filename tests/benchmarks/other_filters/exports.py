"""What was learned here in another filter: its own tokens of the same mail beside those of an export."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from nbstream.evaluation import measures
from nbstream.evaluation.streams import IndexLine
from nbstream.mail.message import Message
from nbstream.other_filters.dump_writing import BogofilterDump, SpamassassinBackup
from nbstream.tokens.tokenizer import Tokenizer
from tests.benchmarks.other_filters.teaching import SECONDS, spamassassin_database, teach_bogofilter
from tests.benchmarks.speed.processes import CannotMeasure, program

_SPAMICITY = re.compile(r"X-Bogosity: (\w+), tests=bogofilter, spamicity=([\d.]+)")
_DOMAINS = "share/spamassassin/20_aux_tlds.cf"
_SURE = 0.95  # BAYES_95: SpamAssassin alone decides nothing by its Bayes


def rows(taught: Sequence[IndexLine], following: Sequence[IndexLine]) -> Iterator[str]:
    """Yield the rows of the table, for both filters."""
    backup, dump, tokenizer = SpamassassinBackup(), BogofilterDump(), Tokenizer()
    for n, line in enumerate(taught):
        tokens = tokenizer.tokenize(Message.parse(line.path.read_bytes())).all.names
        backup.add(line.label, float(n), tokens)
        dump.add(line.label, float(n), tokens)
    with tempfile.TemporaryDirectory() as name:
        own, ours = Path(name) / "own", Path(name) / "ours"
        own.mkdir()
        ours.mkdir()
        teach_bogofilter(own, taught)
        load: list[str | Path] = [program("bogoutil", "bogofilter"), "-l", ours / "wordlist.db"]
        subprocess.run(load, input=b"".join(dump.lines()), check=True, timeout=SECONDS)
        yield _row("bogofilter, taught itself", following, _bogofilter(own, following))
        yield _row("bogofilter, from an export", following, _bogofilter(ours, following))
        database = spamassassin_database(own, taught)
        file = Path(name) / "backup"
        file.write_bytes(b"".join(backup.lines()))
        learn: list[str | Path] = [
            program("sa-learn", "spamassassin"),
            "--local",
            "--dbpath",
            ours / "bayes",
            "--restore",
            file,
        ]
        subprocess.run(learn, check=True, timeout=SECONDS, capture_output=True)
        yield _row("SpamAssassin, taught itself", following, _spamassassin(database, following))
        yield _row("SpamAssassin, from an export", following, _spamassassin(ours / "bayes", following))


def _bogofilter(folder: Path, following: Sequence[IndexLine]) -> list[tuple[float, bool]]:
    words = [program("bogofilter", "bogofilter"), "-d", str(folder), "-v", "-b"]
    names = "".join(f"{line.path}\n" for line in following)
    done = subprocess.run(words, input=names, capture_output=True, text=True, timeout=SECONDS, check=False)
    return [(float(score), verdict == "Spam") for verdict, score in _SPAMICITY.findall(done.stdout)]


def _spamassassin(database: Path, following: Sequence[IndexLine]) -> list[tuple[float, bool]]:
    script = Path(__file__).with_name("bayes.pl")
    domains = Path(program("sa-learn", "spamassassin")).parents[1] / _DOMAINS
    words: list[str | Path] = [program("perl", "perl"), script, database, database.parent, domains]
    names = "".join(f"{line.path}\n" for line in following)
    done = subprocess.run(words, input=names, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise CannotMeasure(f"SpamAssassin: {done.stderr[-300:]}")
    scores = map(float, done.stdout.split())
    return [(score, score >= _SURE) for score in scores]


def _row(name: str, following: Sequence[IndexLine], checks: Sequence[tuple[float, bool]]) -> str:
    assert len(checks) == len(following)
    is_spam = np.array([line.label == "spam" for line in following])
    score, called = np.array([score for score, _ in checks]), np.array([called for _, called in checks])
    auc = measures.one_minus_auc_percent(is_spam, score)
    missed = measures.fn_at_fp_percent(is_spam, score, 0.001)
    lost, passed = int(called[~is_spam].sum()), int((~called[is_spam]).sum())
    return f"| {name} | {auc:.4f} / {missed:.2f} / {lost} / {passed} |"
