"""rspamd with nothing but its Bayes, one worker, its own Redis: the same messages learned, in the same order."""

from __future__ import annotations

import http.client
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from tests.benchmarks.speed.bench import Labelled
from tests.benchmarks.speed.processes import (
    CannotMeasure,
    Served,
    free_port,
    listens,
    output,
    program,
    run_quietly,
    served,
)

_CONFIG = """\
options {{
  filters = ""; allow_raw_input = true; words_decay = 600; url_tld = "/usr/share/rspamd/effective_tld_names.dat";
  pidfile = "{folder}/rspamd.pid"; control_socket = "{folder}/control.sock mode=0600"; tempdir = "{folder}";
  cache_file = "{folder}/symbols.cache"; dynamic_conf = "{folder}/dynamic"; history_file = "{folder}/history";
  hs_cache_dir = "{folder}/"; stats_file = "{folder}/stats.ucl"; dns {{ nameserver = ["127.0.0.1"]; }}
}}
logging {{ type = "file"; filename = "{folder}/rspamd.log"; level = "info"; }}
worker "normal" {{ bind_socket = "127.0.0.1:{port}"; count = 1; mime = true; }}
worker "controller" {{ bind_socket = "127.0.0.1:{controller}"; count = 1; secure_ip = "127.0.0.1"; }}
classifier "bayes" {{
  tokenizer {{ name = "osb"; }}
  backend = "redis"; servers = "{redis}"; new_schema = true; min_tokens = 11; min_learns = 200;
  statfile {{ symbol = "BAYES_HAM"; spam = false; }}
  statfile {{ symbol = "BAYES_SPAM"; spam = true; }}
}}
actions {{ reject = 15; add_header = 6; }}
group "statistics" {{ symbols = {{ "BAYES_SPAM" {{ weight = 6.0; }} "BAYES_HAM" {{ weight = -3.0; }} }} }}
"""

_DUMP = "dump.rdb"  # as Redis calls it
_LEARNED = {200, 204, 208}  # 204: too few words, 208: known


@dataclass(frozen=True, slots=True)
class Rspamd:
    """A running rspamd and its Redis."""

    server: Served
    redis: Served
    port: int
    controller: int

    def learn(self, messages: Sequence[Labelled]) -> None:
        """Teach the messages in their order."""
        connection = http.client.HTTPConnection("127.0.0.1", self.controller, timeout=30)
        for label, path in messages:
            connection.request("POST", f"/learn{label}", path.read_bytes())
            answer = connection.getresponse()
            text = answer.read()
            if answer.status not in _LEARNED:
                raise CannotMeasure(f"rspamd did not learn: {answer.status} {text[:200]!r}")
        connection.close()

    def learn_by_rspamc(self, label: str, messages: Sequence[Path]) -> None:
        """Teach the messages by one rspamc, which has several requests under way."""
        words = [program("rspamc", "rspamd"), "-h", f"127.0.0.1:{self.controller}", f"learn_{label}"]
        run_quietly(*words, *messages)


@contextmanager
def rspamd(folder: Path, dump: Path, messages: Sequence[Labelled]) -> Iterator[Rspamd]:
    """Run a taught rspamd with all its files in ``folder``; the ``dump`` of its Redis is made if it is missing.

    Raises ``CannotMeasure``.
    """
    rspamd_program, redis_program = program("rspamd", "rspamd"), program("redis-server", "redis-server")
    redis, port, controller = folder / "redis.sock", free_port(), free_port()
    config = folder / "rspamd.conf"
    config.write_text(_CONFIG.format(folder=folder, redis=redis, port=port, controller=controller))
    private = [redis_program, "--port", "0", "--unixsocket", str(redis), "--dir", str(folder), "--save", ""]
    if dump.exists():
        shutil.copy(dump, folder / _DUMP)
    with served(private, folder / "redis.log", folder) as store:
        store.wait_for(lambda: _loaded(redis))
        words = [rspamd_program, "-c", str(config), "-f", *_root()]
        with served(words, folder / "out.log", folder) as server:
            server.wait_for(lambda: listens(port) and listens(controller))
            running = Rspamd(server, store, port, controller)
            if not dump.exists():
                running.learn(messages)
                with Redis(unix_socket_path=str(redis)) as client:
                    client.save()
                shutil.copy(folder / _DUMP, dump)
            yield running


def _loaded(redis: Path) -> bool:
    try:
        with Redis(unix_socket_path=str(redis)) as client:
            return bool(client.ping())
    except RedisError:
        return False


def version() -> str:
    """Return the version as the program prints it."""
    return output(program("rspamd", "rspamd"), "--version").strip()


def _root() -> list[str]:
    """The option without which it does not run as root."""
    return ["-i"] if os.geteuid() == 0 else []
