"""The daemon with servers under sentinels: a failover refuses no mail, and costs lessons no more than a retry."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbstream.listeners.stream.queue import CLAIM_SECONDS
from tests.harness.daemon import DaemonProcess, wait_until
from tests.harness.redis.sentinel_set import SERVICE, SentinelSet
from tests.harness.traffic import Traffic, audit, stream_answers


def write_settings(folder: Path, servers: SentinelSet, redis: str = "wait_replicas: 1") -> Path:
    """Write settings that name the sentinels."""
    file = folder / "nbstream.yaml"
    sentinels = ", ".join(servers.addresses)
    file.write_text(
        f"state_dir: {folder / 'state'}\n"
        f"redis: {{sentinels: [{sentinels}], service: {SERVICE}, timeout_seconds: 2, {redis}}}\n"
        "listeners: {smtp: {listen: 127.0.0.1:0}, http: {listen: 127.0.0.1:0}, stream: {}}\n"
        "log: {format: json}\n"
    )
    return file


@pytest.mark.soak
def test_a_failover_under_mail_lessons_and_stream_entries_loses_nothing(
    server_program: Path, tmp_path: Path
) -> None:
    with (
        SentinelSet(server_program, tmp_path / "set") as servers,
        DaemonProcess(write_settings(tmp_path, servers)) as daemon,
        Traffic(daemon, servers, stream=True) as traffic,
    ):
        traffic.wait_for_lessons(20)
        old = servers.primary()
        with traffic.event("the primary is killed"):
            old.kill()
            servers.wait_for_new_primary(old)
        with traffic.event("it comes back as a replica"):
            old.start()
            servers.wait_until_whole()
        traffic.stop()

        account, result = traffic.account, audit(servers, traffic.account)
        assert account.mails_refused == []
        assert account.lesson_refusals != []  # what was refused has been acknowledged since
        assert result.lost == []
        assert result.is_exact
        assert result.entries == result.records == len(account.acknowledged)
        wait_until(lambda: stream_answers(servers) >= set(account.entries), 3 * CLAIM_SECONDS)
        assert daemon.metric('nbstream_filter_failures_total{reason="store"}') == 0
        wait_until(lambda: daemon.metric('nbstream_model_messages{class="spam"}') > 0)
        assert daemon.metric("nbstream_redis_up") == 1
        assert daemon.get("/readyz") == (200, '{"ready":true,"degraded":{}}')


@pytest.mark.soak
def test_lessons_wait_while_too_few_replicas_follow_and_mail_does_not(
    server_program: Path, tmp_path: Path
) -> None:
    with (
        SentinelSet(server_program, tmp_path / "set") as servers,
        DaemonProcess(write_settings(tmp_path, servers, "wait_replicas: 2")) as daemon,
        Traffic(daemon, servers) as traffic,
    ):
        traffic.wait_for_lessons(5)
        (away, _) = servers.replicas()
        with traffic.event("a replica is away"):
            away.kill()
            refused = len(traffic.account.lesson_refusals)
            wait_until(lambda: len(traffic.account.lesson_refusals) > refused)
            away.start()
        traffic.stop()

        account, result = traffic.account, audit(servers, traffic.account)
        assert account.mails_refused == []
        assert result.is_exact
        assert result.entries == result.records == len(account.acknowledged)
