"""Labelled streams from files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.errors import InputError
from nbstream.evaluation.streams import LabelledContent, MessageSource, merge_sources, read_stream
from tests.harness.samples import samples, write_corpus


def write_text(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_an_index_gives_its_files_as_mail_in_order(tmp_path: Path) -> None:
    index = write_corpus(tmp_path / "corpus", 5)
    stream = read_stream(index)

    assert (stream.description, stream.count) == ("an index of messages", 5)
    assert list(stream.messages) == [
        LabelledContent(label, raw, str(index.parent / f"{number}.eml"))
        for number, (label, raw) in enumerate(samples(5))
    ]


def test_what_follows_the_path_in_an_index_is_ignored(tmp_path: Path) -> None:
    index = write_corpus(tmp_path / "corpus", 2)
    index.write_text(index.read_text().replace("\n", "\tada@example.org\n"))

    assert len(list(read_stream(index).messages)) == 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", 'spam\tWIN: "now", friend\nham\t"said ""hi""\tto me"\n\nham\tx\ny\n'.replace("x\ny", '"x\ny"')),
        ("a.csv", 'label,text\r\nspam,"WIN: ""now"", friend"\r\nham,"said ""hi""\tto me"\r\nham,"x\ny"\r\n'),
        ("a.CSV", '\ufeffLabel,Text\nspam,"WIN: ""now"", friend"\nham,"said ""hi""\tto me"\nham,"x\ny"'),
    ],
)
def test_a_table_gives_its_texts(tmp_path: Path, name: str, text: str) -> None:
    stream = read_stream(write_text(tmp_path / name, text))

    assert (stream.description, stream.count) == ("a table of texts", 3)
    messages = list(stream.messages)
    assert [(message.label, message.content) for message in messages] == [
        ("spam", 'WIN: "now", friend'),
        ("ham", 'said "hi"\tto me'),
        ("ham", "x\ny"),
    ]
    last_line = text.rstrip().replace("\r", "").count("\n") + 1
    assert messages[-1].name == f"{tmp_path / name}:{last_line}"


def test_a_file_whose_second_line_names_a_file_is_an_index(tmp_path: Path) -> None:
    write_text(tmp_path / "lunch", "Subject: lunch\n\n")

    with pytest.raises(InputError, match=r"a\.tsv:1: there is no dinner"):
        read_stream(write_text(tmp_path / "a.tsv", "ham\tdinner\nham\tlunch\n"))


@pytest.mark.parametrize(
    ("name", "text", "message_start"),
    [
        ("index", "eggs\tx\n", "index:1: must be spam or ham, a tab, and a path"),
        ("index", "spam x\n", "index:1: must be spam or ham, a tab, and a path"),
        ("a.tsv", "ham\tx\n\neggs\ty\n", "a.tsv:3: must be spam or ham, a tab, and a text"),
        ("a.csv", "spam,WIN, now\n", "a.csv:1: must be spam or ham, a comma, and a text (quoted"),
        ("a.csv", 'ham,x\nspam,"WIN\n', "a.csv:2: unexpected end of data"),
        ("a.csv", "ham,x\n\x00", "a.csv:2: must be spam or ham"),
    ],
)
def test_an_unreadable_line_is_named(tmp_path: Path, name: str, text: str, message_start: str) -> None:
    with pytest.raises(InputError) as raised:
        read_stream(write_text(tmp_path / name, text))

    assert str(raised.value).startswith(f"{tmp_path}/{message_start}")


def test_a_missing_or_binary_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes(b"spam,\xa31000\n")

    with pytest.raises(InputError, match=r"latin\.csv: is not UTF-8 text"):
        read_stream(tmp_path / "latin.csv")
    with pytest.raises(InputError, match=r"none: No such file or directory"):
        read_stream(tmp_path / "none")
    with pytest.raises(InputError, match=r"index:1: there is no gone\.eml"):
        read_stream(write_text(tmp_path / "index", "spam\tgone.eml\n"))
    write_text(tmp_path / "here.eml", "Subject: here\n\nhere\n")
    stream = read_stream(write_text(tmp_path / "index", "spam\there.eml\n"))
    (tmp_path / "here.eml").unlink()
    with pytest.raises(InputError, match=r"here\.eml: No such file or directory"):
        list(stream.messages)


@given(st.integers(0, 60), st.integers(0, 60))
def test_two_sources_end_together_each_in_its_own_order(spams: int, hams: int) -> None:
    spam, ham = [("s", b"s%d" % n) for n in range(spams)], [("h", b"h%d" % n) for n in range(hams)]

    stream = merge_sources([MessageSource("spam", spams, spam), MessageSource("ham", hams, ham)])

    messages = list(stream.messages)
    assert stream.count == len(messages) == spams + hams
    assert [(message.name, message.content) for message in messages if message.label == "spam"] == spam
    assert [(message.name, message.content) for message in messages if message.label == "ham"] == ham
    for i in range(len(messages)):
        # Before any position the share of spam is that of the whole stream, up to less than one message.
        behind = sum(message.label == "spam" for message in messages[:i])
        assert abs(behind - i * spams / len(messages)) < 1
