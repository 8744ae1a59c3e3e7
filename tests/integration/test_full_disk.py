"""A full disk under the embedded Redis: feedback waits, mail flows, and what was acknowledged is there after."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tests.harness.daemon import DaemonProcess, wait_until
from tests.integration.test_life import send

SPAM = "spam@nbstream.invalid"


def fill(folder: Path) -> Path:
    """Take all that is left."""
    path = folder / "filler"
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
    return path


def message(number: int) -> bytes:
    return b"Message-ID: <%d@x>\r\nSubject: prize %d\r\n\r\nClaim your free prize now\r\n" % (number, number)


def test_a_full_disk_defers_feedback_and_loses_nothing_acknowledged(
    small_disk: Path, tmp_path: Path, redis_binary: Path
) -> None:
    config = tmp_path / "nb.yaml"
    config.write_text(
        f"state_dir: {small_disk}\nredis: {{timeout_seconds: 1}}\nlog: {{format: json}}\n"
        f"relay: {{next_hop: 'maildir:{tmp_path / 'Maildir'}'}}\n"
        "listeners: {smtp: {listen: 127.0.0.1:0}, http: {listen: 127.0.0.1:0}}\n"
    )
    with DaemonProcess(config) as daemon:
        assert send(daemon, message(1), SPAM).startswith("250 2.0.0 learned as spam")
        filler = fill(small_disk)

        replies = [send(daemon, message(number), SPAM) for number in range(2, 30)]
        acknowledged = {number for number, reply in enumerate(replies, start=2) if reply.startswith("250")}
        assert replies[-1].startswith("451 4.3.0 ")
        assert all(reply.startswith(("250 2.0.0 learned", "451 4.3.0 ")) for reply in replies)
        assert send(daemon, message(99)).startswith("250 2.0.0 Delivered")

        filler.unlink()
        wait_until(lambda: send(daemon, message(1), SPAM).startswith("250 2.0.0 already"))
        for number in range(2, 30):
            outcome = "already" if number in acknowledged else ("already", "learned")
            told = send(daemon, message(number), SPAM).removeprefix("250 2.0.0 ")
            assert told.startswith(outcome)
        wait_until(lambda: daemon.metric('nbstream_model_messages{class="spam"}') == 29)
