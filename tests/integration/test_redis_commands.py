"""All commands and the stream listener work behind Sentinels and in a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nbstream.cli.main import main
from tests.harness.daemon import DaemonProcess, wait_until
from tests.harness.redis.cluster_set import ClusterSet
from tests.harness.redis.sentinel_set import SERVICE, SentinelSet
from tests.harness.redis.server_process import ServerProcess

IN, OUT = "nbstream:{default}:in", "nbstream:{default}:out"


class Servers:
    """A set of servers, how a configuration names it, and where the model is now."""

    def __init__(self, servers: SentinelSet | ClusterSet) -> None:
        self._servers = servers

    @property
    def setting(self) -> str:
        addresses = ", ".join(f"'{address}'" for address in self._servers.addresses)
        if isinstance(self._servers, SentinelSet):
            return f"{{sentinels: [{addresses}], service: {SERVICE}}}"
        return f"{{cluster: [{addresses}]}}"

    def node(self, model: str = "default") -> ServerProcess:
        if isinstance(self._servers, SentinelSet):
            return self._servers.primary()
        return self._servers.owner(self._servers.slot(f"{{{model}}}"))

    def learned(self, model: str = "default") -> int:
        reply = self.node(model).ask("HVALS", f"nbstream:{{{model}}}:totals")
        names = self.node(model).ask("HKEYS", f"nbstream:{{{model}}}:totals")
        assert isinstance(reply, list)
        assert isinstance(names, list)
        return sum(int(n) for name, n in zip(names, reply, strict=True) if name.startswith(b"messages:"))


@pytest.fixture(params=["sentinels", "cluster"])
def servers(request: pytest.FixtureRequest, server_program: Path, tmp_path: Path) -> Iterator[Servers]:
    kind = SentinelSet if request.param == "sentinels" else ClusterSet
    with kind(server_program, tmp_path / "set") as running:
        yield Servers(running)


def configure(folder: Path, redis: str, model: str = "default", more: str = "") -> Path:
    path = folder / f"{model}.yaml"
    path.write_text(
        f"state_dir: {folder / 'state'}\nredis: {redis}\n"
        f"model: {{name: {model}, min_learned: 0}}\n"
        "models: [{match: '*@example.org', name: '{domain}/{local}'}]\n"
        f"log: {{format: json}}\nrelay: {{next_hop: 'maildir:{folder / 'mail'}'}}\n{more}\n"
    )
    return path


def samples(folder: Path, label: str, count: int) -> Path:
    target = folder / label
    target.mkdir()
    for number in range(count):
        text = f"Subject: {label} {number}\n\nthe {label} words number{number} of {number % 7}\n"
        (target / f"{number}.eml").write_text(text)
    return target


def test_every_command_works_and_two_workers_answer_a_stream(
    servers: Servers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def succeed(*words: str | Path) -> str:
        """Run a command in this process; what it prints."""
        code, printed = main(list(map(str, words))), capsys.readouterr()
        assert code == 0, printed.err
        return printed.out

    config = configure(tmp_path, servers.setting)
    spam, ham = samples(tmp_path, "spam", 20), samples(tmp_path, "ham", 20)
    succeed("config", "check", config)

    succeed("learn", "spam", "-c", config, spam)
    succeed("learn", "ham", "-c", config, ham)
    assert servers.learned() == 40
    assert "spam" in succeed("check", "-c", config, spam / "0.eml")
    assert "spam" in succeed("history", "-c", config)
    succeed("model", "show", "-c", config)
    assert "spam 20/0, ham 20/0" in succeed("status", "-c", config)
    succeed("forget", "--auto", "-c", config, "--yes")

    users = [f"user{number}@example.org" for number in range(8)]
    for user in users:
        succeed("learn", "ham", "-c", config, "--user", user, ham / "0.eml")
    succeed("export", "-c", config, tmp_path / "model.gz")
    other = configure(tmp_path, servers.setting, "other")
    succeed("import", "-c", other, tmp_path / "model.gz")
    assert servers.learned("other") == 40
    assert succeed("model", "list", "-c", other).count("user") == len(users)
    succeed("forget", "-c", other, "--user", users[0], "--yes")
    assert succeed("model", "list", "-c", other).count("user") == len(users) - 1
    succeed("undo", "-c", config, "--since", "1h", "--yes")
    assert servers.learned() == 0

    listeners = "workers: 2\nlisteners: {smtp: null, http: {listen: '127.0.0.1:0'}, stream: {}}"
    with DaemonProcess(configure(tmp_path, servers.setting, more=listeners)):
        for number in range(60):
            label = ("label", "spam" if number % 2 else "ham")
            servers.node().ask("XADD", IN, "*", "id", number, "text", f"text {number} of words", *label)
        wait_until(lambda: servers.node().ask("XLEN", OUT) == 60)
        assert servers.learned() == 60
