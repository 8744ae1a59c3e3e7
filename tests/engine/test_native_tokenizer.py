"""The native library takes messages apart as Python does, to the byte."""

from __future__ import annotations

import os
import random
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail.message import Message
from nbstream.mail.mime import MessageLimits
from nbstream.tokens.native_tokenizer import ForeignPieces, NativeTokenizer, Question
from nbstream.tokens.tokenizer import Tokenizer, TokenizerOptions
from tests.harness import corpora
from tests.harness.expensive_messages import KNOWN
from tests.harness.generated_mail import HTML, LINKS, SCRIPTS, WORDS, generated_mail, message
from tests.harness.mutation import mutations
from tests.harness.native import native_library
from tests.tokens.digests import FILE, OPTIONS, digests

MUTATED = int(os.environ.get("NBSTREAM_MUTATED", "700"))
"""How many mutated messages are compared."""

PIECES = (
    b"&nbsp;", b"&#", b"&#x1f6", b"&eacute", b"<script", b"</script>", b"<!--", b"-->", b"<b>", b"http://",
    b"www.", b"://", b"%41", b"%e9", b"\xe9", b"\x1c", b"charset=iso-8859-1", b"charset=koi8-r", b"charset=gb2312",
    *(character.encode() for character in "éß\u03a3İ\u0301中\ufdfa\u3000\xa0ﬁ\x85\U0001d4d0\U0001f600\ufa6c"),
    "\U0001fae8".encode(),
    b"Authentication-Results: y.example; spf=pass smtp.mailfrom=a@b.example\r\n",
)  # fmt: skip


@pytest.fixture(scope="module")
def native() -> NativeTokenizer:
    return NativeTokenizer(OPTIONS, native_library())


@pytest.fixture(scope="module")
def without_python() -> Iterator[NativeTokenizer]:
    """A native tokenizer that raises where the library hands a message back, as it does after a panic."""
    native = NativeTokenizer(OPTIONS, native_library())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "_specification", None)
        yield native


def differing(native: Tokenizer, messages: Iterable[Message]) -> list[bytes]:
    """The messages that Python takes apart in another way."""
    python = Tokenizer(native.options)
    return [message.raw for message in messages if native.tokenize(message) != python.tokenize(message)]


def originals() -> list[bytes]:
    """Messages with every kind of token, and small ones that are made to cost much."""
    mail = [raw for _, raw in generated_mail() if len(raw) < 50_000]
    return mail + [recipe.message(3_000) for recipe in KNOWN.values()]


def test_generated_mail_is_taken_apart_alike(native: NativeTokenizer) -> None:
    raws = [raw for _, raw in generated_mail()] + [recipe.message(60_000) for recipe in KNOWN.values()]
    assert differing(native, map(Message.parse, raws)) == []


def test_the_digests_are_those_of_python(native: NativeTokenizer) -> None:
    assert digests(native) == FILE.read_text().splitlines()


def test_mutated_mail_is_taken_apart_alike(native: NativeTokenizer) -> None:
    draw = random.Random(5)
    small = [MessageLimits(400), MessageLimits(3_000, 3), MessageLimits(70_000, 200, 1)]
    messages = (
        Message(Message.parse(raw).raw, draw.choice([MessageLimits(), *small]), draw.random() < 0.05)
        for raw in mutations(originals(), MUTATED, seed=5, words=PIECES)
    )
    assert differing(native, messages) == []


TEXTS = st.text(
    st.sampled_from(
        [
            *"<>&;#x/ab1Z .@-_'%\n\"",
            *"éÉßΣİſ中\uff71\uff9e\u0301\u00a0\u2028\ufb01\u0e01\u1100\uac00½€\U0001f600\U0001fae8\ufa6c",
        ]
    ),
    max_size=600,
)


@given(TEXTS, st.sampled_from(["text/plain", "text/html"]))
def test_any_text_is_taken_apart_alike(native: NativeTokenizer, text: str, content_type: str) -> None:
    raw = message([("Subject", "x")], text, f"{content_type}; charset=utf-8")
    assert differing(native, [Message.parse(raw), Message.from_text(text)]) == []


@given(
    st.binary(max_size=300), st.sampled_from(["utf-8", "us-ascii", "iso-8859-9", "windows-1256", "koi8-r", "x"])
)
def test_any_bytes_are_read_alike(without_python: NativeTokenizer, content: bytes, charset: str) -> None:
    raw = message([("Subject", "x")], content, f"text/plain; charset={charset}")
    assert differing(without_python, [Message.parse(raw)]) == []


@pytest.mark.parametrize(
    "text",
    [
        f"{WORDS} {LINKS} " * 400,
        HTML * 300,
        " ".join(SCRIPTS) * 200,
        "".join(f"&#{number};" for number in range(20_000, 27_000)) + "&#30000;" * 9_000,
        "&ab" * 9_000 + "".join(f"&x{number};" for number in range(6_000)),
        " ".join(f"w{number}" for number in range(70_000)),
        " ".join(f"É{number}" for number in range(70_000)),
        "".join(map(chr, range(0x4E00, 0x9E00))) * 3,
        "\uff21" * 300_000 + " \uff21\uff11 \u338f",
        "\xbd" * 200_000
        + " \uff21\xbd\xdf\u0130 \ufb01 "
        + " ".join(f"\uff21\xdf\u0149\U0001fae8{n}" for n in range(9_000)),
        " ".join(f"\u0130\uff21\xdf\U0001fae8&#x1fae8;&Sigma;{n}" for n in range(60_000)),
        "\ufa6c\uff21 \ufa6c \U0001fae8x <b\U0001fae8>y</b> &#x1fae8;z",
        " ".join("y" * 30 + str(number) for number in range(40_000)),
    ],
    ids=lambda text: text[:12],
)
def test_the_limits_of_work_are_the_same(native: NativeTokenizer, text: str) -> None:
    raws = [message([], text, f"{content_type}; charset=utf-8") for content_type in ("text/plain", "text/html")]
    assert differing(native, map(Message.parse, raws)) == []


@pytest.mark.parametrize("max_tokens", [1, 7, 100, 20_000])
def test_the_limit_of_tokens_is_the_same(max_tokens: int) -> None:
    native = NativeTokenizer(TokenizerOptions(max_tokens), native_library())
    text = " ".join(f"a-long-word-{number:010d}" for number in range(15_000))
    assert differing(native, map(Message.parse, [message([], text), text.encode(), *originals()[:60]])) == []


def test_every_character_is_folded_alike(without_python: NativeTokenizer) -> None:
    # Of the many ideographs and private characters that are alike some are enough.
    alike = [range(0x4E00, 0x9FF0), range(0x20000, 0x2A6D0), range(0x30010, 0xE0000), range(0xE0200, 0x110000)]
    numbers = [n for n in range(0xA0, 0x110000) if not (0xD800 <= n < 0xE000 or any(n in like for like in alike))]
    texts = (
        " ".join(f"x{chr(number)}y" for number in numbers[start : start + 900])
        for start in range(0, len(numbers), 900)
    )
    assert differing(without_python, [Message.parse(message([], text)) for text in texts]) == []


def test_characters_that_combine_are_folded_alike(without_python: NativeTokenizer) -> None:
    draw = random.Random(3)
    marks = [character for character in map(chr, range(0x110000)) if unicodedata.combining(character)]
    forms = [character for character in map(chr, range(0x110000)) if unicodedata.decomposition(character)]
    hangul, kana = map(chr, range(0x1100, 0x1200)), map(chr, range(0xFF61, 0xFFA0))
    kinds = [marks, forms, [*hangul, "\uac00", "\uac01"], list(kana), list("aeksAEKS\u0130\u0390")]

    def word() -> str:
        return "".join(draw.choice(draw.choice(kinds)) for _ in range(draw.choice((1, 2, 3, 5, 9, 40))))

    texts = [" ".join(word() for _ in range(250)) for _ in range(25)]
    texts.append("".join(word() for _ in range(60_000)))  # behind the limit of folding
    messages = [Message.parse(message([("Subject", word())], text)) for text in texts]
    assert differing(without_python, messages) == []


@pytest.mark.parametrize("name", KNOWN)
def test_no_text_makes_python_do_more_than_decode_each_part_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    native = NativeTokenizer(TokenizerOptions(), native_library())
    costly = Message.parse(KNOWN[name].message(60_000))
    questions: list[tuple[int, int]] = []
    answer = ForeignPieces.answer

    def counting(pieces: ForeignPieces, question: int, arguments: Sequence[bytes]) -> bytes:
        questions.append((question, sum(map(len, arguments))))
        return answer(pieces, question, arguments)

    monkeypatch.setattr(ForeignPieces, "answer", counting)
    monkeypatch.setattr(native, "_specification", None)  # nothing is handed back
    native.tokenize(costly)

    assert {question for question, _ in questions} <= {Question.LOWER_TEXT, Question.FIELD_TOKENS}
    assert len(questions) <= len(costly.parts)
    assert sum(size for _, size in questions) <= len(costly.raw)


@pytest.mark.parametrize("text", [b"a== \r\nb", b"a== \t\r\nb", b"a=== \r\nb", b"a= \r\nb", b"a==\r\nb", b"a== b"])
def test_blanks_behind_equals_signs_are_read_alike(without_python: NativeTokenizer, text: bytes) -> None:
    header = b"From: a@x.example\r\nContent-Transfer-Encoding: quoted-printable\r\nContent-Type: "
    contents = (header + content_type + b"\r\n\r\n" + text for content_type in (b"text/plain", b"image/png"))

    assert differing(without_python, [Message.parse(content) for content in contents]) == []


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interruption_of_an_answer_goes_on_behind_the_library(
    monkeypatch: pytest.MonkeyPatch, interruption: type[BaseException]
) -> None:
    native = NativeTokenizer(OPTIONS, native_library())
    asking = Message.parse(message([("Subject", "x")], b"\xb5\xc4", "text/plain; charset=gb2312"))
    with monkeypatch.context() as patch:

        def interrupt(*_: object) -> bytes:
            raise interruption

        patch.setattr(ForeignPieces, "answer", interrupt)
        with pytest.raises(interruption):
            native.tokenize(asking)
    assert differing(native, [asking]) == []


@pytest.mark.parametrize("read", [corpora.torture_messages, lambda folder: _stream(folder, 20_000)])
def test_real_mail_is_taken_apart_alike(
    native: NativeTokenizer, read: Callable[[Path], list[bytes]], tmp_path: Path
) -> None:
    assert differing(native, map(Message.parse, read(tmp_path))) == []


def _stream(folder: Path, limit: int) -> list[bytes]:
    return [raw for _, raw in corpora.trec_stream(folder, limit)]
