"""``make accuracy ONLY=new-kinds`` works: letters written for tests stand for everyday mail."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

import pytest

from tests.benchmarks import accuracy, new_kinds
from tests.benchmarks.new_kinds import EVERYDAY, members
from tests.harness.samples import samples

HTML_PART = b"Content-Type: text/html\n\n<p>meeting agenda for our readers</p>"


def write_everyday_mail(folder: Path, count: int) -> Path:
    """An archive of letters; every fourth ham is a newsletter in HTML from its own domain."""
    index, kinds = [], []
    (folder / EVERYDAY).mkdir(parents=True)
    for number, (label, raw) in enumerate(samples(count)):
        kind = label if label == "spam" else "newsletter" if number % 4 == 0 else "work"
        letter = newsletter(raw) if kind == "newsletter" else raw
        (folder / EVERYDAY / f"{number}.eml").write_bytes(letter)
        index.append(f"{label}\t{number}.eml\n")
        kinds.append(f"{number}.eml\t{label}\t{kind}\ten\t2026\n")
    (folder / EVERYDAY / "index.tsv").write_text("".join(index))
    (folder / EVERYDAY / "kinds.tsv").write_text("".join(kinds))
    archive = folder / f"{EVERYDAY}.tar.xz"
    with tarfile.open(archive, "w:xz") as tar:
        tar.add(folder / EVERYDAY, EVERYDAY)
    return archive


def newsletter(letter: bytes) -> bytes:
    return letter.replace(b"@work.example.org", b"@news.example.net").replace(b"\n\n", b"\n" + HTML_PART, 1)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_families_are_measured_and_what_is_missing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_everyday_mail(tmp_path, 400)
    monkeypatch.setattr(sys, "argv", ["accuracy", str(tmp_path), "new-kinds"])
    monkeypatch.setenv("PATH", str(tmp_path))  # there is no other filter

    accuracy.main()

    out, err = capsys.readouterr()
    table = [cells(line) for line in out.splitlines() if line.startswith("| comm")]
    assert [row[1:3] for row in table] == [["2", "0"], ["2", "1"], ["2", "3"], ["2", "10"]]
    assert all(cell == "-" for row in table for cell in row[-4:])
    assert all("(" in cell for row in table for cell in row[3:7])
    assert "Skipped, because it is not there: trec07p-20k.\n" in out
    assert all(f"Skipped, because it is not installed: {name}.\n" in out for name in new_kinds.PEERS)
    assert f"skipped, because {tmp_path} has no lists-2019-2022.tar.xz: its kinds\n" in err
    assert "4 of 4, " in err


def test_what_is_taught_has_no_ham_of_the_kind_and_no_tested_message(tmp_path: Path) -> None:
    write_everyday_mail(tmp_path, 200)
    corpus = new_kinds.read_corpus(tmp_path / EVERYDAY / "index.tsv")

    planned = {(member.family, member.name): member for member in members({EVERYDAY: corpus})}

    member = planned["comm", f"{EVERYDAY}, HTML"]
    assert {mail.kind for mail in member.taught} == {"spam", "work"}
    assert {mail.kind for mail in (*member.labelled, *member.ham)} == {"newsletter"}
    tested = {mail.path for mail in (*member.labelled, *member.ham, *member.spam)}
    assert tested.isdisjoint(mail.path for mail in member.taught)
    assert len(tested) == len(member.labelled) + len(member.ham) + len(member.spam)
