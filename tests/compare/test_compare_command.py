"""``nbstream compare`` on a running daemon: verdicts at the time of the check, labels that came later."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.compare.other_filters import Bogofilter
from tests.conftest import RedisServer
from tests.integration.daemon import DaemonProcess, command, send, wait_until
from tests.integration.test_replay import write_config
from tests.letters import letters

HAM_SAYS = "X-Bogosity: Ham, tests=bogofilter, spamicity=0.01, version=1.2.5\n"
SPAM_SAYS = "X-Bogosity: Spam, tests=bogofilter, spamicity=0.99, version=1.2.5\n"


def files(folder: Path, mail: Sequence[bytes]) -> Path:
    folder.mkdir()
    for number, raw in enumerate(mail):
        (folder / f"{number}.eml").write_bytes(raw)
    return folder


def judged_by_other(raw: bytes, says: str) -> bytes:
    head, empty, body = raw.partition(b"\n\n")
    return head + b"\n" + says.rstrip().encode() + empty + body


def of_label(label: str, count: int, seed: int) -> list[bytes]:
    return [raw for of, raw in letters(4 * count, seed) if of == label][:count]


@pytest.fixture
def daemon(tmp_path: Path, own_redis: RedisServer) -> Iterator[DaemonProcess]:
    """One that observes beside bogofilter, and has learned 80 letters."""
    config = write_config(
        tmp_path,
        redis=f"{{url: '{own_redis.url}'}}",
        headers="{mode: observe}",
        compare="{filter: bogofilter}",
        autolearn="null",
        ask="{share: 1.0}",
    )
    with DaemonProcess(config) as running:
        for label in ("spam", "ham"):
            taught = files(tmp_path / f"taught-{label}", of_label(label, 40, seed=1))
            assert command("learn", label, taught, "-c", config).returncode == 0
        yield running


def compared(daemon: DaemonProcess, *options: str | Path) -> dict[str, Any]:
    result = command("compare", "--json", "-c", daemon.config, *options)
    assert result.returncode == 0, result.stderr
    return dict(json.loads(result.stdout))


def pass_through(daemon: DaemonProcess, mail: Sequence[bytes]) -> None:
    send(daemon, [("bob@y.example", raw) for raw in mail])
    wait_until(lambda: (r := compared(daemon))["messages"] + sum(r["left_out"].values()) >= len(mail), seconds=60)


def test_who_was_right_as_people_labelled_later(daemon: DaemonProcess, tmp_path: Path) -> None:
    lost, spam, others = of_label("ham", 4, seed=2), of_label("spam", 6, seed=3), of_label("ham", 5, seed=4)
    pass_through(
        daemon,
        [
            *(judged_by_other(raw, SPAM_SAYS) for raw in lost),
            *(judged_by_other(raw, HAM_SAYS) for raw in spam),
            *(judged_by_other(raw, HAM_SAYS) for raw in others),
            judged_by_other(judged_by_other(of_label("ham", 1, seed=5)[0], HAM_SAYS), SPAM_SAYS),
            of_label("ham", 1, seed=6)[0],
        ],
    )
    before = compared(daemon)
    assert before["left_out"] == {"without_verdict": 1, "unclear": 1, "learning": 0, "checked_after_label": 0}
    assert before["messages"] == 15
    assert before["summary"].startswith("Nobody has labelled")

    command("learn", "ham", files(tmp_path / "lost", lost), "-c", daemon.config)
    command("learn", "spam", files(tmp_path / "passed", spam), "-c", daemon.config)
    send(daemon, [("bob@y.example", judged_by_other(lost[0], SPAM_SAYS))])  # again, when we know what it is
    wait_until(lambda: compared(daemon)["left_out"]["checked_after_label"] == 1, seconds=60)

    after = compared(daemon)
    assert after["acting"] == "bogofilter"
    assert (after["labelled"]["ham"]["other"], after["labelled"]["ham"]["messages"]) == (3, 3)
    assert (after["labelled"]["spam"]["other"], after["labelled"]["spam"]["messages"]) == (6, 6)
    assert after["labelled"]["ham"]["ours"] == 0
    assert after["fair_sample"]["drawn"] == 14
    assert after["shown"][0]["label"] == "ham"
    assert after["shown"][0]["clues"]
    text = command("compare", "-c", daemon.config, "--since", "1h", "--plot", tmp_path / "days.svg").stdout
    assert "On 9 labelled messages nbstream would have lost 0 ham instead of 3" in text
    assert (tmp_path / "days.svg").stat().st_size
    assert compared(daemon, "--since", "2100-01-01")["messages"] == 0


def test_a_filter_behind_us_is_read_from_delivered_mail(
    daemon: DaemonProcess, tmp_path: Path, program: Callable[[str], str]
) -> None:
    """The real bogofilter in a delivery script: its field is not there yet when we check."""
    spam, ham = of_label("spam", 3, seed=7), of_label("ham", 3, seed=8)
    pass_through(daemon, [*spam, *ham])
    hint = command("compare", "-c", daemon.config)
    assert "nbstream compare --mail FOLDER" in hint.stderr

    bogofilter = Bogofilter(program("bogofilter"), tmp_path / "words")
    bogofilter.learn("-s", of_label("ham", 10, seed=9))  # it was taught the wrong way round
    bogofilter.learn("-n", of_label("spam", 10, seed=9))
    inbox = tmp_path / "state" / "Maildir" / "new"
    delivered = files(tmp_path / "delivered", [bogofilter.mark(path.read_bytes()) for path in inbox.iterdir()])
    command("learn", "spam", files(tmp_path / "passed", spam), "-c", daemon.config)

    report = compared(daemon, "--mail", delivered)
    assert report["messages"] == 6
    assert (report["labelled"]["spam"]["other"], report["labelled"]["spam"]["ours"]) == (3, 0)


def test_without_a_named_filter_nothing_is_compared(tmp_path: Path, own_redis: RedisServer) -> None:
    config = write_config(tmp_path, redis=f"{{url: '{own_redis.url}'}}")
    result = command("compare", "-c", config)
    assert (result.returncode, "compare: {filter: rspamd}" in result.stderr) == (78, True)
