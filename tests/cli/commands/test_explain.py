"""``nbstream explain`` as a user meets it, over a model and remembered checks in a real Redis."""

from __future__ import annotations

import asyncio
import math
import re
from pathlib import Path

import pytest

from nbstream.filter import Check, RememberingObserver
from nbstream.mail.message import Message
from nbstream.store.model.model import Model
from nbstream.store.recent.checked_messages import RecentMessages
from nbstream.store.settings import MemorySettings
from tests.cli.taught import Taught
from tests.harness.filters import make_filter
from tests.harness.samples import samples

NOBODY = "a" * 24
LETTER = next(raw for label, raw in samples(50, seed=8) if label == "spam")
EXPLANATION = {
    "time",
    "verdict",
    "reason",
    "probability",
    "score",
    "prior",
    "discount",
    "thresholds",
    "learned",
    "needed",
    "clues",
}


@pytest.fixture
def model(taught: Taught) -> Taught:
    """A model that has learned twenty messages."""
    for label, raw in samples(20):
        taught.teach(raw, label)
    return taught


def check(taught: Taught, raw: bytes) -> Check:
    """Check a letter as the daemon does, and have it remembered."""

    async def run(model: Model) -> Check:
        memory = RecentMessages(model.client, model.keys, MemorySettings(), lambda _: None)
        writing = asyncio.create_task(memory.run())
        answer = await make_filter(model.client, RememberingObserver(memory.remember)).check(Message.parse(raw))
        await memory.wait_until_written()
        writing.cancel()
        await asyncio.wait([writing])
        return answer

    return taught.model(run)


def test_an_id_shows_the_last_check_and_in_one_line_a_check_now(model: Taught) -> None:
    then = check(model, LETTER)
    model.teach(LETTER, "ham")

    out, err = model("explain", then.id)

    assert err == ""
    assert f"id       {then.id}\n" in out
    verdict, reason = str(then.verdict), re.escape(then.reason)
    assert re.search(rf"^checked  2\S+T\S+  {verdict} {then.probability:.6f}  \({reason}\)$", out, re.M)
    assert re.search(r"^learned  2\S+  as ham  by smtp ann$", out, re.M)
    assert re.search(r"^now      (?:ham|unsure|spam) 0\.\d{6}  \(.*\)$", out, re.M)
    assert f"now      {verdict} {then.probability:.6f}" not in out
    assert "as it is now" not in out
    assert f"score {then.score:+.2f} -> probability {then.probability:.6f} -> {verdict}\n" in out


def test_as_json_all_is_shown_and_sums_to_the_score(model: Taught) -> None:
    then = check(model, LETTER)
    (line,) = model.json("explain", then.id, "-n", "1")

    assert list(line) == ["path", "id", "remembered", "learned", "then", "now"]
    assert (line["path"], line["id"], line["learned"]) == (None, then.id, None)
    assert line["remembered"] == {
        "verdict": str(then.verdict),
        "probability": then.probability,
        "policy": "default",
    }
    assert set(line["then"]) == set(line["now"]) == EXPLANATION
    explanation = line["then"]
    assert (explanation["score"], explanation["probability"], explanation["prior"]) == (
        then.score,
        then.probability,
        then.prior,
    )
    in_force = {"unsure": 0.5, "spam": 0.99, "reject": None}
    assert explanation["thresholds"] == {**in_force, "guarantee": "", "guaranteed": False}
    assert (explanation["learned"], explanation["needed"]) == (then.state.learned, {"ham": 1, "spam": 1})
    assert set(explanation["clues"][0]) == {"token", "from", "ham", "spam", "log_ratio", "sum"}
    assert (
        abs(math.fsum([explanation["prior"], *(clue["log_ratio"] for clue in explanation["clues"])]) - then.score)
        < 1e-9
    )
    assert explanation["clues"][-1]["sum"] == then.score
    assert {**explanation, "time": ""} == {**line["now"], "time": ""}


def test_a_message_is_explained_as_it_is_now_and_says_that_it_was_checked_before(
    model: Taught, tmp_path: Path
) -> None:
    path = tmp_path / "letter.eml"
    path.write_bytes(LETTER)
    never, _ = model("explain", str(path))
    then = check(model, LETTER)

    before, _ = model("explain", str(path))
    (line,) = model.json("explain", str(path))
    (checked,) = model.json("check", str(path))

    assert "checked  never, or so long ago that it is forgotten" in never
    assert f"message  {path}\nid       {then.id}\nchecked  2" in before
    assert "as it is now:" in before
    assert line["path"] == str(path)
    assert line["then"]["score"] == then.score
    assert [line["now"][name] for name in ("score", "probability", "verdict", "reason")] == [
        checked[name] for name in ("score", "probability", "verdict", "reason")
    ]
    assert [(clue["token"], clue["log_ratio"]) for clue in line["now"]["clues"]] == [
        (clue["token"], clue["log_ratio"]) for clue in checked["clues"]
    ]


def test_what_was_learned_and_is_no_longer_remembered_is_explained_by_the_ledger(model: Taught) -> None:
    message_key = model.teach(LETTER, "spam")

    out, _ = model("explain", message_key)
    (line,) = model.json("explain", message_key)

    assert "checked  never, or so long ago that it is forgotten" in out
    assert "by the tokens that it was learned with" in out
    assert (line["remembered"], line["then"]) == (None, None)
    assert line["learned"]["label"] == "spam"
    assert line["now"]["score"] > 0


NASTY = (
    "From: \x1b[2J\x9b31m <a\x1b]0;x\x07@example.com>\n"
    "Subject: \x1b[31mprize \u202egnp.exe \u2066 \u05d0\u05d1 \u65e5\u672c\u8a9e\n"
    "X-\x1b: a\nX-Evil: \x1b[1A\n\nfree \x1b[2J\x85\u2028 \u200f\u05d2\u05d3 prize\n"
).encode()


@pytest.mark.parametrize("arguments", [(), ("--json",)], ids=["text", "json"])
def test_a_message_cannot_move_the_terminal(model: Taught, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    for number in range(3):
        model.teach(NASTY + b"%d\n" % number, "spam")
    then = check(model, NASTY)
    path = tmp_path / "\x1b[31mletter.eml"
    path.write_bytes(NASTY)

    out = model("explain", "--all", then.id, str(path), *arguments)[0]

    assert len(then.clues) > 10
    assert all(c.isprintable() for c in out.replace("\n", ""))
    assert out.count("+spam -ham" if not arguments else "log_ratio") >= 2
