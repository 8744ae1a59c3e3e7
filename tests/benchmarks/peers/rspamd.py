"""rspamd with its own rules and Bayes in its own Redis; what would ask the network is switched off.

Junk is what it calls "add header" or worse. Its minimum of 200 messages of each class is lowered to 50, which the
taught messages reach.
"""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from tests.benchmarks.peers.inbox import Labelled
from tests.benchmarks.speed.processes import CannotMeasure, free_port, listens, output, program, served

_STOCK = Path("/etc/rspamd/rspamd.conf")
_NETWORK = (
    "arc", "asn", "bimi", "dkim", "dkim_signing", "dmarc", "emails", "fuzzy_check", "greylist", "hfilter",
    "history_redis", "mx_check", "neural", "once_received", "phishing", "ratelimit", "rbl", "replies",
    "reputation", "rspamd_update", "spf", "surbl", "url_redirector", "whitelist",
)  # fmt: skip
"""Modules that ask DNS or other servers, or that go by senders' addresses, which a stream of old mail has not."""

_AUTOLEARN = """\
autolearn {
  spam_threshold = 6.0; junk_threshold = 4.0; ham_threshold = -0.5; check_balance = true; min_balance = 0.9;
}
"""
"""The sample of its own statistic.conf."""

_SETTINGS = '{"symbols_disabled": ["DATE_IN_PAST"]}'
"""A rule that all old mail would trip over."""

_JUNK = {"add header", "rewrite subject", "reject"}
_LEARNED = {200, 204, 208}  # 204: too few words or known already, 208: known


class Rspamd:
    """A running rspamd, asked over HTTP."""

    def __init__(self, port: int, controller: int) -> None:
        self._checks = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._lessons = http.client.HTTPConnection("127.0.0.1", controller, timeout=60)

    def learn(self, label: str, path: Path) -> None:
        """Teach one message. Raises ``CannotMeasure``."""
        self._post(self._lessons, f"/learn{label}", path, _LEARNED)

    def learn_all(self, messages: Sequence[Labelled]) -> None:
        """Teach messages in their order."""
        for label, path in messages:
            self.learn(label, path)

    def check(self, paths: Sequence[Path]) -> list[bool]:
        """Return of each message whether it goes to Junk."""
        answers = (self._post(self._checks, "/checkv2", path, {200}) for path in paths)
        return [json.loads(answer)["action"] in _JUNK for answer in answers]

    @staticmethod
    def _post(connection: http.client.HTTPConnection, target: str, path: Path, expected: set[int]) -> bytes:
        connection.request("POST", target, path.read_bytes(), {"Settings": _SETTINGS})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status not in expected:
            raise CannotMeasure(f"rspamd: {answer.status} {text[:200]!r}")
        return text


@contextmanager
def rspamd(folder: Path, *, autolearn: bool) -> Iterator[Rspamd]:
    """Run an untaught rspamd with all its files in ``folder``. Raises ``CannotMeasure``."""
    rspamd_program, redis_program = program("rspamd", "rspamd"), program("redis-server", "redis-server")
    if not _STOCK.is_file():
        raise CannotMeasure(f"no {_STOCK}: apt install rspamd")
    redis, port, controller = folder / "redis.sock", free_port(), free_port()
    _write_configuration(folder, redis, port, controller, autolearn=autolearn)
    private = [redis_program, "--port", "0", "--unixsocket", str(redis), "--dir", str(folder), "--save", ""]
    variables = [f"--var={name}={folder}" for name in ("LOCAL_CONFDIR", "DBDIR", "RUNDIR", "LOGDIR")]
    with served(private, folder / "redis.log", folder) as store:
        store.wait_for(lambda: _answers(redis))
        words = [rspamd_program, "-c", str(_STOCK), "-f", *variables, *(["-i"] if os.geteuid() == 0 else [])]
        with served(words, folder / "out.log", folder) as server:
            server.wait_for(lambda: listens(port) and listens(controller))
            yield Rspamd(port, controller)


def version() -> str:
    """Return the version as the program prints it."""
    return output(program("rspamd", "rspamd"), "--version").strip().splitlines()[0]


def _write_configuration(folder: Path, redis: Path, port: int, controller: int, *, autolearn: bool) -> None:
    local = folder / "local.d"
    local.mkdir()
    files = {
        **{f"{module}.conf": "enabled = false;\n" for module in _NETWORK},
        "options.inc": 'dns { nameserver = ["127.0.0.1"]; timeout = 0.1s; retransmits = 1; }\n',
        "worker-normal.inc": f'bind_socket = "127.0.0.1:{port}"; count = 1;\n',
        "worker-controller.inc": f'bind_socket = "127.0.0.1:{controller}"; secure_ip = "127.0.0.1";\n',
        "worker-proxy.inc": "enabled = false;\n",
        "worker-fuzzy.inc": "enabled = false;\n",
        "redis.conf": f'servers = "{redis}";\n',
        "classifier-bayes.conf": f"min_learns = 50;\n{_AUTOLEARN if autolearn else ''}",
    }
    for name, text in files.items():
        (local / name).write_text(text)


def _answers(redis: Path) -> bool:
    try:
        with Redis(unix_socket_path=str(redis)) as client:
            return bool(client.ping())
    except RedisError:
        return False
