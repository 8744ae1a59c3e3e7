"""Several workers under one parent: one daemon to the outside, whatever happens to one of them."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import smtplib
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from nbstream.listeners import control
from tests.integration.daemon import DEADLINE_SECONDS, DaemonProcess, command, free_port, gone, wait_until
from tests.integration.test_reload import catches_hangups
from tests.integration.workers import DOORS, MANY, Site, connect, replaced, send, told

MESSAGES = "nbstream_messages_total"
RESTARTS = "nbstream_worker_restarts_total"
LAST_SUCCESS = "nbstream_config_last_success_timestamp_seconds"
REFUSED = 'nbstream_config_reloads_total{outcome="refused"}'


@pytest.fixture
def site(tmp_path: Path, redis_binary: Path) -> Site:  # the daemon starts the server itself
    return Site(tmp_path)


def scraped(daemon: DaemonProcess, door: str = "metrics") -> list[str]:
    """The lines of /metrics."""
    url = f"http://{daemon.address(door)}/metrics"
    with urllib.request.urlopen(url, timeout=DEADLINE_SECONDS) as response:
        return str(response.read().decode()).splitlines()


def total(daemon: DaemonProcess, name: str, door: str = "metrics") -> float:
    """The sum of a metric over its labels."""
    return sum(float(line.rpartition(" ")[2]) for line in scraped(daemon, door) if re.match(rf"{name}[{{ ]", line))


def model(daemon: DaemonProcess) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = json.loads(daemon.get("/v1/model")[1])
    return found


def test_both_take_mail_and_know_what_was_taught_by_either(site: Site) -> None:
    with site.running() as daemon:
        assert len(set(site.pids())) == 2
        assert json.loads(command("status", "-c", site.file, "--json").stdout)["worker_pids"] == site.pids()
        for number in range(MANY):
            assert send(daemon, f"mail {number}").startswith("250 ")
        for number in range(MANY):
            reply = send(daemon, f"lesson {number}", "spam@nbstream.invalid", f"offer {number}")
            assert reply.startswith("250 2.0.0 learned")

        assert sorted(site.delivered()) == sorted(f"mail {number}" for number in range(MANY))
        parts = [site.counted(worker, MESSAGES) for worker in (1, 2)]
        assert all(parts)
        lessons = [site.counted(worker, "nbstream_feedback_total") for worker in (1, 2)]
        assert (all(lessons), sum(lessons)) == (True, MANY)
        wait_until(lambda: all(model(daemon)["learned"]["spam"] == MANY for _ in range(MANY)))
        # One view, by whichever process it is asked for.
        assert sum(parts) == total(daemon, MESSAGES) == total(daemon, MESSAGES, "http") == MANY
        assert sum(json.loads(daemon.get("/stat")[1])["actions"].values()) == MANY
        assert daemon.stop() == 0


def test_metrics_are_those_of_one_process(site: Site) -> None:
    found = []
    for workers in (1, 2):
        site.state = site.file.with_name(f"state{workers}")
        site.write("autolearn: {}", doors=f"{DOORS}, stream: {{}}", workers=workers)
        with DaemonProcess(site.file) as daemon:
            send(daemon, "mail")
            send(daemon, "lesson", "ham@nbstream.invalid")
            wait_until(lambda: total(daemon, "nbstream_model_tokens") > 0)
            wait_until(lambda: any(line.startswith("nbstream_stream_lag") for line in scraped(daemon)))
            for door in ("metrics", "http"):
                lines = scraped(daemon, door)
                families = list(text_string_to_metric_families("\n".join(lines) + "\n"))
                series = [
                    (sample.name, *sorted(sample.labels.items()))
                    for family in families
                    for sample in family.samples
                ]
                assert len(series) == len(set(series)), "a series appears once"
                helps = {line for line in lines if line.startswith("#")}
                # When a counter began is known for one process only.
                found.append({str(each) for each in (*series, *helps) if "_created" not in str(each)})
            assert daemon.stop() == 0
    assert found[0] == found[1] == found[2] == found[3]


def test_what_is_to_be_said_once_is_said_once(site: Site, redis_binary: Path, tmp_path: Path) -> None:
    port = free_port()
    words = [str(redis_binary), "--port", str(port), "--save", "", "--dir", str(tmp_path)]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        site.write(f"redis: {{url: 'redis://127.0.0.1:{port}'}}")
        with site.running() as daemon:
            wait_until(lambda: len([e for e in daemon.events if "counts loaded" in str(e["event"])]) == 2)
            wait_until(lambda: any("a restart loses" in str(event["event"]) for event in daemon.events))
            assert send(daemon, "afterwards").startswith("250 ")
            assert not told(daemon, "draining")
            assert daemon.stop() == 0
            warnings = [event for event in daemon.events if "a restart loses" in str(event["event"])]
            assert [event["worker"] for event in warnings] == [1]
    finally:
        server.kill()
        server.wait()


def test_a_killed_worker_is_replaced_and_what_it_counted_stays(site: Site) -> None:
    with site.running() as daemon:
        for number in range(MANY):
            send(daemon, f"before {number}")
        files = {path.name for path in (site.state / "metrics").iterdir()}
        for times, victim in enumerate(site.pids(), 1):
            os.kill(victim, signal.SIGKILL)
            replaced(daemon, times)
        assert {path.name for path in (site.state / "metrics").iterdir()} == files
        assert total(daemon, MESSAGES) == MANY
        for number in range(MANY):
            send(daemon, f"after {number}")

        assert total(daemon, MESSAGES) == 2 * MANY
        assert total(daemon, RESTARTS) == 2
        assert total(daemon, "nbstream_build_info") == 1
        (first, _) = [event for event in daemon.events if "another one is started" in str(event["event"])]
        assert first["event"] == "worker was ended by SIGKILL; another one is started"


def test_mail_goes_on_while_workers_are_killed(site: Site) -> None:
    accepted: list[str] = []
    with site.running() as daemon:
        done = threading.Event()

        def deliver(name: int) -> None:
            number = 0
            while not done.is_set():
                number += 1
                subject = f"{name}-{number}"
                try:
                    if send(daemon, subject).startswith("250 "):
                        accepted.append(subject)
                except (OSError, smtplib.SMTPException):
                    continue  # a mail server tries again; here the next message does

        clients = [threading.Thread(target=deliver, args=(name,)) for name in range(3)]
        for client in clients:
            client.start()
        try:
            for times in range(1, 4):
                seen = len(accepted)
                wait_until(lambda: len(accepted) > seen + 20)  # noqa: B023 - called before the next
                os.kill(site.pids()[0], signal.SIGKILL)
                replaced(daemon, times)
        finally:
            done.set()
            for client in clients:
                client.join()
        assert set(accepted) <= set(site.delivered()), "acknowledged mail was lost"
        assert total(daemon, RESTARTS) == 3
        assert daemon.stop() == 0


def under_way(daemon: DaemonProcess, recipient: str = "to@example.org") -> smtplib.SMTP:
    """A connection on which a message has begun."""
    client = connect(daemon)
    client.mail("from@example.org")
    client.rcpt(recipient)
    assert client.docmd("DATA")[0] == 354
    return client


def finish(client: smtplib.SMTP) -> str:
    """The rest of the message, and its answer; a daemon that drains closes the connection after it."""
    client.send(b"Subject: under way\r\n\r\nHow are you?\r\n.\r\n")
    code, text = client.getreply()
    client.close()
    return f"{code} {text.decode()}"


def test_one_that_is_told_to_end_drains_and_is_replaced(site: Site) -> None:
    with site.running() as daemon:
        clients = [under_way(daemon) for _ in range(10)]
        victims = site.pids()
        for victim in victims:
            os.kill(victim, signal.SIGTERM)
        wait_until(lambda: len(told(daemon, "draining")) == 2)
        assert all(finish(client).startswith("250 ") for client in clients)
        replaced(daemon, 2)
        assert not set(victims) & set(site.pids())


def test_a_reload_reaches_all_and_holds_for_those_that_come_later(site: Site) -> None:
    with site.running() as daemon:
        site.write("verdict: {spam: 0.9}")
        result = command("reload", "-c", site.file)

        assert (result.returncode, result.stderr) == (0, "")
        assert all(model(daemon)["thresholds"]["spam"] == 0.9 for _ in range(MANY))
        # Whichever tells it: two moments would be reloads without end to whoever watches.
        read = {total(daemon, LAST_SUCCESS, door) for door in ("http", "metrics") for _ in range(MANY // 2)}
        assert len(read) == 1

        for times, victim in enumerate(site.pids(), 1):
            os.kill(victim, signal.SIGKILL)
            replaced(daemon, times)
        assert all(model(daemon)["thresholds"]["spam"] == 0.9 for _ in range(MANY))

        site.write("verdict: {spam: 0.8}")
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: len(told(daemon, "reloaded")) == 2)
        assert all(model(daemon)["thresholds"]["spam"] == 0.8 for _ in range(MANY))

        site.write("verdict: {spam: 7}", workers=3)
        result = command("reload", "-c", site.file)
        assert result.returncode == 78
        assert all(model(daemon)["thresholds"]["spam"] == 0.8 for _ in range(MANY))
        site.write("verdict: {spam: 0.8}", workers=3)
        assert "in force only after a restart: workers\n" in command("reload", "-c", site.file).stdout


def test_a_hangup_in_the_first_moment_reloads_all(site: Site) -> None:
    daemon = DaemonProcess(site.file)
    try:
        wait_until(lambda: catches_hangups(daemon.process.pid))
        site.write("verdict: {spam: 0.9}")
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: len(told(daemon, "reloaded")) == 1)
        daemon.ready()
        assert all(model(daemon)["thresholds"]["spam"] == 0.9 for _ in range(MANY))
        assert daemon.stop() == 0
    finally:
        daemon.kill()


def test_a_reload_is_refused_by_all_where_one_does_not_answer(site: Site) -> None:
    with site.running() as daemon:
        silent = site.pids()[1]
        os.kill(silent, signal.SIGSTOP)
        try:
            site.write("verdict: {spam: 0.9}")
            result = command("reload", "-c", site.file)
        finally:
            os.kill(silent, signal.SIGCONT)

        assert result.returncode == 78
        assert "worker 2: no answer within 10 s" in result.stderr
        assert total(daemon, "nbstream_config_reloads_total") == daemon.metric(REFUSED) == 1
        assert all(model(daemon)["thresholds"]["spam"] == 0.95 for _ in range(MANY))


def test_a_worker_that_does_not_answer_does_not_keep_the_metrics(site: Site) -> None:
    with site.running() as daemon:
        silent = site.pids()[0]
        os.kill(silent, signal.SIGSTOP)
        try:
            assert total(daemon, "nbstream_redis_up") == 1
        finally:
            os.kill(silent, signal.SIGCONT)


def test_scrapers_that_wait_for_a_worker_do_not_have_a_reload_refused(site: Site) -> None:
    with site.running() as daemon:
        host, _, port = daemon.address("metrics").rpartition(":")
        silent = site.pids()[0]
        os.kill(silent, signal.SIGSTOP)
        scrapers = [socket.create_connection((host, int(port)), DEADLINE_SECONDS) for _ in range(40)]
        try:
            for scraper in scrapers:
                scraper.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            # Those that it was not asked for were answered by the other: now as many wait as may.
            assert select.select(scrapers, [], [], DEADLINE_SECONDS)[0]
            site.write("verdict: {spam: 0.9}")
            with ThreadPoolExecutor(1) as pool:
                asked = pool.submit(control.ask, site.state, "reload", DEADLINE_SECONDS)
                wait([asked], 1.0)  # refused at once, or it waits for the one that is to go on
                os.kill(silent, signal.SIGCONT)
                assert asked.result()["problems"] == []
        finally:
            os.kill(silent, signal.SIGCONT)
            for scraper in scrapers:
                scraper.close()
        assert all(model(daemon)["thresholds"]["spam"] == 0.9 for _ in range(MANY))


def test_sigterm_drains_all(site: Site) -> None:
    site.write("drain_seconds: 3600")
    with site.running() as daemon:
        server = int((site.state / "redis.server").read_text())
        clients = [under_way(daemon) for _ in range(20)]
        daemon.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not accepts(daemon.address("smtp")))
        assert all(finish(client).startswith("250 ") for client in clients)
        assert daemon.wait() == 0
        assert gone(server)
        assert len(site.delivered()) == len(clients)
        assert daemon.events[-1]["event"] == "stopped"


def test_what_does_not_end_in_time_is_ended(site: Site) -> None:
    site.write("drain_seconds: 0")
    with site.running() as daemon:
        os.kill(site.pids()[0], signal.SIGSTOP)
        assert daemon.stop() == 0
        (event,) = [event for event in daemon.events if "workers are killed" in str(event["event"])]
        assert event["workers"] == "1"


def accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), DEADLINE_SECONDS).close()
    except ConnectionRefusedError:
        return False
    return True


def test_without_their_parent_workers_drain_and_the_next_daemon_takes_over(site: Site) -> None:
    ports = f"smtp: {{listen: '127.0.0.1:{free_port()}'}}, http: {{listen: '127.0.0.1:{free_port()}'}}"
    site.write(doors=ports)
    with site.running() as daemon:
        pids, server = site.pids(), int((site.state / "redis.server").read_text())
        client = under_way(daemon, "spam@nbstream.invalid")
        daemon.process.kill()
        wait_until(lambda: not accepts(daemon.address("smtp")))
        assert finish(client).startswith("250 2.0.0 learned ")
    wait_until(lambda: all(map(gone, [*pids, server])))

    with site.running() as daemon:
        assert send(daemon, "afterwards").startswith("250 ")
        assert model(daemon)["learned"]["spam"] == 1


def test_auto_is_one_for_each_cpu_that_may_be_used(site: Site, program: Callable[[str], str]) -> None:
    site.file.write_text(site.file.read_text().replace("workers: 2", "workers: auto"))
    usable = os.sched_getaffinity(0)
    with DaemonProcess(site.file):
        assert len(site.pids()) == (len(usable) if len(usable) > 1 else 0)
    with DaemonProcess(site.file, program("taskset"), "--cpu-list", str(min(usable))):
        assert site.pids() == []


def test_who_dies_again_and_again_is_replaced_later_each_time(site: Site) -> None:
    with site.running() as daemon:
        for times in range(1, 4):
            os.kill(site.pids()[0], signal.SIGKILL)
            replaced(daemon, times)
        waits = [event["seconds"] for event in daemon.events if "another one is started" in str(event["event"])]
        assert waits == [0.5, 1.0, 2.0]


def test_a_stored_model_that_cannot_be_used_ends_the_daemon(site: Site) -> None:
    with site.running() as daemon:
        assert send(daemon, "lesson", "spam@nbstream.invalid").startswith("250 ")
        assert daemon.stop() == 0
    site.write("model: {half_life_days: 30}")

    result = command("serve", "-c", site.file)

    assert result.returncode == 78
    assert result.stderr.count("nbstream: ") == 1
    assert "half" in result.stderr


def test_a_port_in_use_is_refused_by_name_also_of_a_daemon_that_shares_its_own(site: Site, tmp_path: Path) -> None:
    with site.running() as daemon:
        for workers in (1, 2):
            (tmp_path / "other.yaml").write_text(
                f"state_dir: {tmp_path / 'other'}\nworkers: {workers}\n"
                f"listeners: {{http: null, smtp: {{listen: '{daemon.address('smtp')}'}}}}\n"
            )
            result = command("serve", "-c", tmp_path / "other.yaml")
            assert result.returncode == 75
            assert "listeners.smtp.listen: cannot listen on 127.0.0.1:" in result.stderr


def test_on_unix_sockets_which_outlive_a_worker_and_not_the_daemon(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    site.write(doors=f"smtp: null, http: {{listen: 'unix:{path}'}}")
    with site.running() as daemon:
        assert ask(path) == {"ready": True, "degraded": {}}
        for times, victim in enumerate(site.pids(), 1):
            os.kill(victim, signal.SIGKILL)
            assert ask(path)["ready"]
            replaced(daemon, times)
        assert ask(path)["ready"]
        assert daemon.stop() == 0
        assert not path.exists()


def ask(path: Path) -> dict[str, object]:
    """/readyz over a unix socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(DEADLINE_SECONDS)
        connection.connect(str(path))
        connection.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
        with connection.makefile("rb") as answer:
            found: dict[str, object] = json.loads(answer.read().partition(b"\r\n\r\n")[2])
    return found
