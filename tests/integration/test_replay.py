"""A labelled stream through a running daemon, while things break."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest
from aiosmtpd.smtp import SMTP, Envelope, Session

from nbstream.mail import header_fields
from nbstream.mail.lines import normalize_line_ends
from nbstream.policy.header import FilterMarks
from tests.conftest import RedisServer
from tests.integration.daemon import DaemonProcess, command, free_port, wait_until
from tests.letters import letters, write_corpus

COUNT = 150


def write_config(folder: Path, **settings: str) -> Path:
    """A configuration with ports that stay the same over restarts."""
    chosen = {
        "state_dir": str(folder / "state"),
        "listeners": f"{{smtp: {{listen: 127.0.0.1:{free_port()}}}, http: {{listen: 127.0.0.1:{free_port()}}}}}",
        "log": "{format: json}",
        "model": "{min_learned: {spam: 10, ham: 10}}",  # it decides before the corpus is at its end
        **settings,
    }
    path = folder / "nb.yaml"
    path.write_text("".join(f"{key}: {value}\n" for key, value in chosen.items()))
    return path


def replaying(config: Path, index: Path, *options: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "nbstream.cli", "replay", "-c", str(config), str(index), "--json", *options]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    return dict(json.loads(out))


def bodies(maildir: Path) -> list[bytes]:
    """The delivered messages from their own first field on, without our header fields."""
    found = []
    for path in (maildir / "new").iterdir():
        raw = normalize_line_ends(path.read_bytes())
        found.append(
            header_fields.strip_fields(raw, ("Return-Path", "X-Envelope-To", *FilterMarks().names)).replace(
                b"\r\n", b"\n"
            )
        )
    return found


@pytest.fixture
def index(tmp_path: Path, redis_binary: Path) -> Path:  # daemons here need a server
    return write_corpus(tmp_path / "corpus", COUNT)


def test_a_replay_delivers_all_learns_all_and_the_counters_agree(tmp_path: Path, index: Path) -> None:
    config = write_config(tmp_path)
    with DaemonProcess(config) as daemon:
        report = result(replaying(config, index, "--skip", "90"))

        sent = [raw for _, raw in letters(COUNT)]
        spam = sum(label == "spam" for label, _ in letters(COUNT))
        assert sorted(bodies(tmp_path / "state/Maildir")) == sorted(sent)
        assert (report["messages"], report["learned"], report["deferred"]) == (COUNT, COUNT, 0)
        assert report["measured"] == COUNT - 90
        assert (report["hm_percent"], report["sm_percent"]) == (0, 0)
        text = daemon.get("/metrics")[1]
        verdicts = [
            float(line.split()[1]) for line in text.splitlines() if line.startswith("nbstream_messages_total{")
        ]
        assert sum(verdicts) == COUNT
        learned = 'nbstream_feedback_total{label="%s",outcome="learned",source="smtp"}'
        assert daemon.metric(learned % "spam") == daemon.metric('nbstream_model_messages{class="spam"}') == spam
        assert (
            daemon.metric(learned % "ham") == daemon.metric('nbstream_model_messages{class="ham"}') == COUNT - spam
        )


@pytest.mark.parametrize(("regime", "least", "most"), [("none", 0, 0), ("errors", 20, 60), ("unsure", 20, 100)])
def test_feedback_is_given_as_the_regime_says(
    tmp_path: Path, index: Path, regime: str, least: int, most: int
) -> None:
    config = write_config(tmp_path)
    with DaemonProcess(config):
        assert least <= result(replaying(config, index, "--feedback", regime))["learned"] <= most


def test_refused_spam_is_counted_as_spam(tmp_path: Path, index: Path) -> None:
    config = write_config(tmp_path, verdict="{spam: 0.95, reject: 0.96}")
    with DaemonProcess(config) as daemon:
        report = result(replaying(config, index, "--skip", "90"))

        assert report["sm_percent"] == 0
        assert daemon.metric('nbstream_messages_total{listener="smtp",verdict="reject"}') > 20


@pytest.mark.soak
def test_kill_9_and_restart_in_mid_replay_lose_nothing_acknowledged(tmp_path: Path, index: Path) -> None:
    config = write_config(tmp_path)
    with DaemonProcess(config) as daemon:
        replay = replaying(config, index)
        wait_until(lambda: daemon.metric('nbstream_model_messages{class="spam"}') > 20)
    with DaemonProcess(config) as daemon:
        report = result(replay)

        assert report["learned"] == COUNT
        assert report["deferred"] > 0
        assert set(bodies(tmp_path / "state/Maildir")) == {raw for _, raw in letters(COUNT)}
        known = [daemon.metric(f'nbstream_model_messages{{class="{label}"}}') for label in ("spam", "ham")]
        assert sum(known) == COUNT


@pytest.mark.soak
def test_redis_stopped_and_started_in_mid_replay_defers_feedback_and_refuses_no_mail(
    tmp_path: Path, index: Path, own_redis: RedisServer
) -> None:
    own_redis.stop()
    own_redis.start("--appendonly", "yes", "--appendfsync", "always")
    config = write_config(tmp_path, redis=f"{{url: 'unix://{own_redis.socket}', timeout_seconds: 1}}")
    with DaemonProcess(config) as daemon:
        replay = replaying(config, index)
        wait_until(lambda: daemon.metric('nbstream_model_messages{class="spam"}') > 20)
        own_redis.stop()
        failed = 'nbstream_feedback_total{label="%s",outcome="failed",source="smtp"}'
        wait_until(lambda: daemon.metric(failed % "spam") + daemon.metric(failed % "ham") > 2)
        assert daemon.metric("nbstream_redis_up") == 0
        own_redis.start("--appendonly", "yes", "--appendfsync", "always")
        report = result(replay)

        assert report["learned"] == COUNT
        assert report["deferred"] > 0
        assert len(bodies(tmp_path / "state/Maildir")) == COUNT
        assert daemon.metric('nbstream_relay_replies_total{code="250"}') == COUNT
        known = [daemon.metric(f'nbstream_model_messages{{class="{label}"}}') for label in ("spam", "ham")]
        assert sum(known) == COUNT


class Hop:
    """A next hop that can stop and start, and defers ``not_now`` messages; it keeps what it acknowledged."""

    def __init__(self) -> None:
        self.port = free_port()
        self.messages: list[bytes] = []
        self.not_now = 0
        self._server: asyncio.Server | None = None
        self._sessions: list[SMTP] = []

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def handle_DATA(self, _: SMTP, __: Session, envelope: Envelope) -> str:  # noqa: N802  # aiosmtpd's name
        assert isinstance(envelope.content, bytes)
        if self.not_now:
            self.not_now -= 1
            return "451 4.3.0 not now"
        self.messages.append(envelope.content)
        return "250 2.0.0 kept"

    def _accept(self) -> SMTP:
        session = SMTP(self, hostname="hop", loop=asyncio.get_running_loop())
        self._sessions.append(session)
        return session

    async def start(self) -> None:
        self._server = await asyncio.get_running_loop().create_server(self._accept, "127.0.0.1", self.port)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for session in self._sessions:
            if session.transport is not None:
                session.transport.close()
        self._sessions.clear()


@pytest.mark.soak
async def test_a_next_hop_stopped_in_mid_replay_costs_451s_and_no_mail(tmp_path: Path, index: Path) -> None:
    async with Hop() as hop:
        config = write_config(
            tmp_path, relay=f"{{next_hop: 'smtp://127.0.0.1:{hop.port}', connect_timeout_seconds: 1}}"
        )
        with await asyncio.to_thread(DaemonProcess(config).ready) as daemon:
            replay = replaying(config, index)
            await asyncio.to_thread(wait_until, lambda: len(hop.messages) > 40)
            await hop.stop()
            ready = await asyncio.to_thread(daemon.get, "/readyz")
            assert ready[0] == 503
            await hop.start()
            report = await asyncio.to_thread(result, replay)

        assert report["learned"] == COUNT
        own = [normalize_line_ends(raw) for _, raw in letters(COUNT)]
        kept = [message[message.index(b"Message-ID:") :] for message in hop.messages]
        assert sorted(kept) == sorted(own)


async def test_a_message_that_the_next_hop_defers_is_sent_again(tmp_path: Path, index: Path) -> None:
    async with Hop() as hop:
        hop.not_now = 3
        config = write_config(tmp_path, relay=f"{{next_hop: 'smtp://127.0.0.1:{hop.port}'}}")
        with await asyncio.to_thread(DaemonProcess(config).ready):
            report = await asyncio.to_thread(result, replaying(config, index, "--limit", "10"))

        assert (report["deferred"], report["learned"], len(hop.messages)) == (3, 10, 10)


@pytest.mark.soak
def test_a_flood_of_connections_is_served_whole(
    tmp_path: Path, redis_binary: Path, program: Callable[[str], str]
) -> None:
    config = write_config(tmp_path)
    with DaemonProcess(config) as daemon:
        flood = [
            program("smtp-source"),
            "-s",
            "20",
            "-l",
            "5000",
            "-m",
            "300",
            "-c",
            f"inet:{daemon.address('smtp')}",
        ]
        subprocess.run(flood, check=True, capture_output=True, timeout=60)

        assert len(list((tmp_path / "state/Maildir/new").iterdir())) == 300
        assert daemon.metric('nbstream_relay_replies_total{code="250"}') == 300


def test_a_daemon_that_is_not_there_is_75(tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbstream.cli.commands.replay._FIRST_SECONDS", 0.0)
    from nbstream.cli.main import main  # noqa: PLC0415  # in this process, where the patience is short

    assert main(["replay", "-c", str(write_config(tmp_path)), str(index)]) == 75


def test_an_index_that_is_none_is_66(tmp_path: Path) -> None:
    (tmp_path / "index").write_text("eggs\tx\n")

    outcome = command("replay", tmp_path / "index")

    assert outcome.returncode == 66
    assert "must be spam or ham, a tab, and a path" in outcome.stderr
