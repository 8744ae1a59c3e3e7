"""The real programs, as their users run them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.speed.processes import listens, served
from tests.integration.daemon import free_port

GTUBE = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X"
"""Text that SpamAssassin and rspamd call spam, whatever they know; rspamd has it refused."""

MARKED = f"Y{GTUBE[1:]}"
"""Text that rspamd has marked as spam without looking further: it removes no forged field."""

PRIZE = "a prize to claim"
"""Text that a rule of this rspamd calls spam."""

_RULES = f"""\
rspamd_config.PRIZE = {{
  callback = function(task) return tostring(task:get_rawbody()):find('{PRIZE}', 1, true) ~= nil end, score = 20
}}
"""

_NETWORK = (
    "arc", "asn", "bimi", "dkim", "dkim_signing", "dmarc", "emails", "fuzzy_check", "greylist", "history_redis",
    "mx_check", "neural", "phishing", "ratelimit", "rbl", "replies", "reputation", "rspamd_update", "spf", "surbl",
    "url_redirector", "whitelist", "hfilter",
)  # fmt: skip
"""Modules of rspamd that ask DNS or other servers."""


def filtered(words: Sequence[str], raw: bytes) -> bytes:
    """What a program that reads a message and writes it again makes of this one."""
    return subprocess.run(words, input=raw, stdout=subprocess.PIPE, check=True, timeout=120).stdout


@dataclass(frozen=True, slots=True)
class Bogofilter:
    """bogofilter with its words in ``folder``."""

    program: str
    folder: Path

    def learn(self, option: str, mail: Sequence[bytes]) -> None:
        self.folder.mkdir(exist_ok=True)
        for raw in mail:
            filtered([self.program, "-d", str(self.folder), option], raw)

    def mark(self, raw: bytes) -> bytes:
        # -e: exit with 0 also for spam, as delivery scripts have it.
        return filtered([self.program, "-d", str(self.folder), "-p", "-e"], raw)


@dataclass(frozen=True, slots=True)
class Rspamd:
    """The ports of a running rspamd: for rspamc, and for a mail server that asks a milter."""

    port: int
    milter: int


@contextmanager
def rspamd(folder: Path, program: Callable[[str], str], milter_headers: str) -> Iterator[Rspamd]:
    """rspamd with all its files in ``folder``; ``milter_headers`` is its local.d/milter_headers.conf."""
    ports = Rspamd(free_port(), free_port())
    local = folder / "local.d"
    local.mkdir(parents=True)
    upstream = 'upstream "local" { default = yes; self_scan = yes; }'
    texts = {
        **{f"{module}.conf": "enabled = false;\n" for module in _NETWORK},
        "options.inc": 'dns { nameserver = ["127.0.0.1"]; timeout = 0.1s; retransmits = 1; }\n'
        "enable_test_patterns = true;\n",
        "worker-normal.inc": f'bind_socket = "127.0.0.1:{ports.port}"; count = 1;\n',
        "worker-proxy.inc": f'bind_socket = "127.0.0.1:{ports.milter}"; milter = yes; count = 1; {upstream}\n',
        "worker-controller.inc": "enabled = false;\n",
        "worker-fuzzy.inc": "enabled = false;\n",
        "milter_headers.conf": milter_headers,
        "actions.conf": "reject = 100; add_header = 6; greylist = null;\n",
    }
    (folder / "rspamd.local.lua").write_text(_RULES)
    for name, text in texts.items():
        (local / name).write_text(text)
    variables = [f"--var={name}={folder}" for name in ("LOCAL_CONFDIR", "DBDIR", "RUNDIR", "LOGDIR")]
    root = ["-i"] if os.geteuid() == 0 else []
    words = [program("rspamd"), "-c", "/etc/rspamd/rspamd.conf", "-f", *variables, *root]
    with served(words, folder / "out.log", folder) as server:
        server.wait_for(lambda: listens(ports.port) and listens(ports.milter))
        yield ports
