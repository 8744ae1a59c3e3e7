"""The set-up of two mail hosts and three Redis hosts, with real servers: what nbstream may do, and a failover."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from tests.deploy.high_availability import FILES, DeployedSet, denied
from tests.harness.daemon import DaemonProcess, command, wait_until
from tests.harness.handbook_pages import page
from tests.harness.redis.access import Access, Certificates
from tests.harness.redis.cluster_set import ClusterSet
from tests.harness.redis.server_process import ServerProcess
from tests.harness.samples import samples, write_corpus
from tests.integration.test_cluster import write_settings as write_cluster_settings
from tests.integration.test_life import send

ADDRESSES = {"spam": "spam@nbstream.invalid", "ham": "ham@nbstream.invalid"}


@pytest.fixture
def deployed(tls_server_program: Path, program: Callable[[str], str], tmp_path: Path) -> Iterator[DeployedSet]:
    certificates = Certificates.make(program("openssl"), tmp_path)
    with DeployedSet(tls_server_program, tmp_path / "set", certificates) as servers:
        yield servers


def client_of(server: ServerProcess, user: str, password: str) -> Redis:
    options = server.access.client_options() | {"username": user, "password": password}
    return Redis(host=server.host, port=server.port, **options)  # type: ignore[arg-type]  # a mapping of many types


def write_noise(folder: Path) -> Path:
    """Messages of more distinct words than the model may hold."""
    folder.mkdir()
    for number in range(8):
        words = "\n".join(f"w{number}x{word}" for word in range(1900))
        (folder / f"{number}.eml").write_text(f"Subject: noise {number}\n\n{words}\n")
    return folder


@pytest.mark.soak
def test_nbstream_uses_no_command_that_its_user_may_not_use(deployed: DeployedSet, tmp_path: Path) -> None:
    config = deployed.write_settings(
        tmp_path / "mail1",
        "model: {max_tokens: 10000, min_learned: 1}\nautolearn: {ham: 0.02, spam: 0.99}\n",
        "  stream: {}\n",
    )
    corpus = write_corpus(tmp_path / "corpus", 30)
    export = tmp_path / "model.gz"
    with DaemonProcess(config) as daemon:
        for label, raw in list(samples(10, seed=9)):
            assert send(daemon, raw.replace(b"\n", b"\r\n"), ADDRESSES[label]).startswith("250 ")
            assert send(daemon, raw.replace(b"\n", b"\r\n")).startswith("250 ")
        assert command("learn", "spam", "-c", config, write_noise(tmp_path / "noise")).returncode == 0
        wait_until(lambda: daemon.metric("nbstream_tokens_evicted_total") > 0)
        with client_of(deployed.primary(), "admin", "CHANGE-ADMIN") as admin:
            for entry in ({"text": "a prize"}, {"text": "a prize", "label": "spam"}, {"neither": "nor"}):
                admin.xadd("nbstream:{default}:in", entry)
            wait_until(lambda: admin.xlen("nbstream:{default}:out") == 3)
        message = corpus.parent / "0.eml"
        commands: list[list[str | Path]] = [
            ["learn", "spam", message],
            ["learn", "ham", message],
            ["unlearn", message],
            ["explain", message],
            ["status"],
            ["model", "show"],
            ["history"],
            ["undo", "--since", "1h", "--label", "ham", "--yes"],
            ["export", export],
            ["evaluate", corpus, "--limit", "10"],
            ["forget", "--auto", "--yes"],
        ]
        for words in commands:
            done = command(words[0], "-c", config, *words[1:])
            assert done.returncode == 0, (words, done.stderr)
        assert command("check", "-c", config, message).returncode in {0, 1}
        other = tmp_path / "other.yaml"
        other.write_text(config.read_text().replace("model: {", "model: {name: other, "))
        imported = command("import", "-c", other, export)
        assert imported.returncode == 0, imported.stderr
        assert daemon.stop() == 0

    assert [entry for server in deployed.servers + deployed.sentinels for entry in denied(server)] == []


@pytest.mark.soak
def test_two_daemons_share_a_model_through_a_failover(deployed: DeployedSet, tmp_path: Path) -> None:
    with (
        DaemonProcess(deployed.write_settings(tmp_path / "mail1")) as one,
        DaemonProcess(deployed.write_settings(tmp_path / "mail2")) as other,
    ):
        known = 'nbstream_model_messages{class="spam"}'
        messages = [raw.replace(b"\n", b"\r\n") for _, raw in samples(3)]
        assert send(one, messages[0], ADDRESSES["spam"]).startswith("250 2.0.0 learned")
        wait_until(lambda: other.metric(known) == 1)
        old = deployed.primary()
        old.kill()

        assert send(one, messages[1], ADDRESSES["spam"]).startswith("451 ")
        assert send(other, messages[1]).startswith("250 ")
        wait_until(lambda: send(one, messages[1], ADDRESSES["spam"]).startswith("250 "))

        assert deployed.primary() is not old
        wait_until(lambda: send(other, messages[0], ADDRESSES["spam"]).startswith("250 2.0.0 already learned"))
        wait_until(lambda: one.metric(known) == other.metric(known) == 2)
        assert "CHANGE-" not in f"{one.events}{other.events}"


@pytest.mark.parametrize(
    "words",
    [
        "FLUSHALL",
        "KEYS *",
        "CONFIG SET appendonly no",
        "SHUTDOWN NOSAVE",
        "REPLICAOF NO ONE",
        "MONITOR",
        "ACL LIST",
        "CLIENT KILL TYPE normal",
        "GET other:key",
        "SET other:key value",
        "EVAL return(1) 0",
        "PUBLISH channel message",
    ],
)
def test_the_user_of_nbstream_may_do_nothing_else(one_server: ServerProcess, words: str) -> None:
    with client_of(one_server, "nbstream", "CHANGE-NBSTREAM") as client:
        assert client.set("nbstream:{model}:key", "value")
        with pytest.raises(ResponseError, match=r"permission|can't run|can't access"):
            client.execute_command(*words.split())


@pytest.fixture(scope="module")
def one_server(
    redis_binary: Path, program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """The first of the servers, without the others."""
    folder = tmp_path_factory.mktemp("server")
    servers = DeployedSet(redis_binary, folder / "set", Certificates.make(program("openssl"), folder))
    servers.configure()
    server = servers.servers[0]
    # Alone, it would take no writes.
    server.configuration.write_text(
        server.configuration.read_text().replace("min-replicas-to-write 1", "min-replicas-to-write 0")
    )
    server.start()
    yield server
    server.kill()


@pytest.mark.soak
def test_nbstream_uses_no_command_of_a_cluster_but_those_of_the_page(server_program: Path, tmp_path: Path) -> None:
    (further,) = re.findall(r"`(\+cluster[^`]+)`", page("guides/high-availability.md").replace("\n", " "))
    (user,) = re.findall(r"^user nbstream .*$", (FILES / "redis.conf").read_text(), re.MULTILINE)
    password = tmp_path / "redis.password"
    password.write_text("CHANGE-NBSTREAM\n")
    password.chmod(0o600)
    access = Access("secret", user="admin")
    with ClusterSet(server_program, tmp_path / "cluster", access, lines=[f"{user} {further}"]) as cluster:
        redis = f"user: nbstream, password_file: {password}"
        with DaemonProcess(write_cluster_settings(tmp_path, cluster, redis)) as daemon:
            wait_until(lambda: send(daemon, recipient=ADDRESSES["spam"]).startswith("250 2.0.0 learned"))
            wait_until(lambda: daemon.metric('nbstream_model_messages{class="spam"}') == 1)
            assert send(daemon).startswith("250 ")
            slot = cluster.slot("nbstream:{default}:in")
            cluster.move_slot(slot, next(node for node in cluster.nodes[:3] if node is not cluster.owner(slot)))
            wait_until(lambda: send(daemon, recipient=ADDRESSES["ham"]).startswith("250 2.0.0 relearned"))

        assert [entry for node in cluster.nodes for entry in denied(node)] == []
