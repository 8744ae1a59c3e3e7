"""``nbstream export --for`` with the real programs, and ``nbstream import`` of what they have learned."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nbstream.cli.main import main
from tests.cli.taught import Taught
from tests.letters import letters

_SECONDS = 120
_SPAMASSASSIN = """
loadplugin Mail::SpamAssassin::Plugin::Check
loadplugin Mail::SpamAssassin::Plugin::Bayes
bayes_path {folder}/bayes
bayes_min_ham_num 1
bayes_min_spam_num 1
body BAYES_SPAM eval:check_bayes('0.9', '1.00')
body BAYES_HAM eval:check_bayes('0.00', '0.1')
score BAYES_SPAM 6
score BAYES_HAM -1
tflags BAYES_SPAM learn
tflags BAYES_HAM learn nice
add_header all Tests _TESTS_
"""


@pytest.fixture
def held_out(taught: Taught, tmp_path: Path) -> list[tuple[str, Path]]:
    """Letters that the model does not know; it has learned others of the same kind."""
    taught.teach_all([(raw, label) for label, raw in letters(60)])
    files = []
    for n, (label, raw) in enumerate(letters(10, seed=8)):
        files.append((label, tmp_path / f"{n}.eml"))
        files[-1][1].write_bytes(raw)
    return files


def test_bogofilter_loads_the_export_and_classifies(
    taught: Taught, held_out: list[tuple[str, Path]], tmp_path: Path, program: Callable[[str], str]
) -> None:
    bogofilter, bogoutil = program("bogofilter"), program("bogoutil")
    out, _ = taught("export", "--for", "bogofilter", str(tmp_path / "dump"))
    assert out.startswith("exported model 'test' for bogofilter: ")

    with (tmp_path / "dump").open("rb") as dump:
        subprocess.run([bogoutil, "-l", tmp_path / "wordlist.db"], stdin=dump, check=True, timeout=_SECONDS)

    for label, path in held_out:
        done = subprocess.run(
            [bogofilter, "-d", tmp_path, "-o", "0.6,0.4", "-I", path], timeout=_SECONDS, check=False
        )
        assert done.returncode == {"spam": 0, "ham": 1}[label]


def test_spamassassin_restores_the_export_and_classifies(
    taught: Taught, held_out: list[tuple[str, Path]], tmp_path: Path, program: Callable[[str], str]
) -> None:
    learn, spamassassin = program("sa-learn"), program("spamassassin")
    taught("export", "--for", "spamassassin", str(tmp_path / "backup"))
    rules, site = tmp_path / "rules", tmp_path / "site"
    rules.mkdir()
    site.mkdir()
    (rules / "bayes.cf").write_text(_SPAMASSASSIN.format(folder=tmp_path))
    options = ["--local", "-C", str(rules), "--siteconfigpath", str(site), "-p", "/dev/null"]

    restore = [learn, *options, "--restore", str(tmp_path / "backup")]
    subprocess.run(restore, check=True, timeout=_SECONDS, capture_output=True)

    for label, path in held_out:
        words = [spamassassin, *options, "-t", str(path)]
        said = subprocess.run(words, capture_output=True, timeout=_SECONDS, check=False).stdout
        assert f"X-Spam-Tests: BAYES_{label.upper()}\n".encode() in said


def test_what_the_ledger_has_forgotten_is_said(taught: Taught, tmp_path: Path) -> None:
    key = taught.teach(b"Subject: prize\n\nClaim your free prize now\n", "spam")
    taught.teach(b"Subject: lunch\n\nlunch on Friday\n", "ham")
    taught.model(lambda model: model.client.delete(model.keys.ledger(key)))

    out, _ = taught("export", "--for", "bogofilter", str(tmp_path / "dump"))

    assert out == "exported model 'test' for bogofilter: 1 ham, 0 spam; the ledger has forgotten 1 messages\n"


def test_an_import_says_what_the_file_is_and_learns_nothing(taught: Taught, tmp_path: Path) -> None:
    (tmp_path / "dump").write_bytes(b"prize 2 1 20261128\n" * 100_000)
    before = taught.stored()

    _, err = taught("import", str(tmp_path / "dump"), code=66)

    assert f"{tmp_path}/dump is a dump of bogofilter" in err
    assert "nbstream learn --mailboxes" in err
    assert taught.stored() == before


def test_a_model_without_words_refuses(taught: Taught, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "private.yaml"
    settings = f"state_dir: {tmp_path}\nmodel: {{name: private, private_tokens: true}}\n"
    config.write_text(taught.config.read_text().partition("model:")[0] + settings)
    (tmp_path / "letter.eml").write_bytes(b"Subject: prize\n\nClaim your free prize now\n")
    assert main(["learn", "-c", str(config), "spam", str(tmp_path / "letter.eml")]) == 0
    capsys.readouterr()

    assert main(["export", "-c", str(config), "--for", "bogofilter", str(tmp_path / "dump")]) == 78

    assert "stores keyed hashes in place of words" in capsys.readouterr().err
    assert not (tmp_path / "dump").exists()
