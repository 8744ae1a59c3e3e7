"""The recorded sessions: what is said to each listener of one daemon."""

from __future__ import annotations

import itertools
import re
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from redis import Redis

from tests.frozen.clients import Content, Transcript, delivered, milter_session, one_request, shown, smtp_session
from tests.frozen.mail import HAM, MESSAGES, SPAM, TAUGHT
from tests.harness import milter_frames
from tests.harness.daemon import DEADLINE_SECONDS, DaemonProcess, command

RECORDINGS = Path(__file__).parent / "recordings"

_CONFIG = """
state_dir: {folder}/state
redis: {{url: 'unix://{redis}'}}
log: {{format: json}}
trusted_authserv_ids: [mx.example.org]
hostname: mx.test
limits: {{max_message_bytes: 20000}}
listeners:
  smtp: {{listen: '127.0.0.1:0'}}
  lmtp: {{listen: 'unix:{folder}/lmtp'}}
  http: {{listen: '127.0.0.1:0'}}
  metrics: {{listen: '127.0.0.1:0'}}
  spamd: {{listen: 'unix:{folder}/spamd'}}
  milter: {{listen: 'unix:{folder}/milter'}}
  dovecot: {{listen: 'unix:{folder}/dovecot'}}
  stream: {{}}
autolearn: null  # it learns beside the sessions, at moments that no recording has
verdict: {{spam: 0.9, reject: 0.9999999}}
actions: {{reject: reject, unsure: pass}}
recipients:
  - {{match: 'strict@example.org', verdict: {{spam: 0.5}}, actions: {{spam: quarantine}}}}
  - {{match: 'redirect@example.org', actions: {{spam: 'redirect:junk@example.org', ham: pass}}}}
headers: {{subject_tag: '[SPAM] '}}
"""


def write_config(folder: Path, redis_socket: Path) -> Path:
    """Write the configuration of the recorded daemon."""
    file = folder / "nb.yaml"
    file.write_text(_CONFIG.format(folder=folder, redis=redis_socket))
    return file


def recorded(folder: Path, redis_socket: Path) -> dict[str, str]:
    """Run a daemon and all sessions; return the recordings by name, with what differs each time replaced."""
    file = write_config(folder, redis_socket)
    recordings: dict[str, list[Transcript]] = {}
    with DaemonProcess(file) as daemon:
        for label, raw in TAUGHT:
            _post(daemon, f"/v1/learn?label={label}", raw)
        recordings["http"] = list(_http(daemon))
        recordings["rspamd"] = list(_rspamd(daemon))
        recordings["spamd"] = list(_spamd(daemon.address("spamd")))
        recordings["smtp"] = list(_smtp(daemon.address("smtp"), b"EHLO client.example\r\n"))
        recordings["lmtp"] = list(_lmtp(daemon.address("lmtp")))
        recordings["milter"] = list(_milter(daemon.address("milter")))
        recordings["stream"] = list(_stream(redis_socket))
        recordings["metrics"] = [_series(daemon)]
        recordings["commands"] = list(_commands(file, folder))
        # Last, because what is reported is learned some time later.
        recordings["dovecot"] = list(_dovecot(daemon.address("dovecot")))
        assert daemon.stop() == 0
    recordings["delivered"] = delivered(folder / "state" / "Maildir" / "new")
    recordings["log"] = [_log(daemon)]
    return {
        name: _without_the_moment("".join(transcript.text for transcript in transcripts), folder, redis_socket)
        for name, transcripts in recordings.items()
    }


def _post(daemon: DaemonProcess, path: str, raw: bytes) -> None:
    request = urllib.request.Request(f"http://{daemon.address('http')}{path}", data=raw, method="POST")
    with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as response:
        response.read()


def _request(method: str, path: str, body: bytes = b"", *fields: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *fields]
    if body or method == "POST":
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def _http(daemon: DaemonProcess) -> Iterator[Transcript]:
    address = daemon.address("http")

    def ask(name: str, method: str, path: str, body: bytes = b"", *fields: str) -> Transcript:
        return one_request(address, name, _request(method, path, body, *fields))

    for name, raw in MESSAGES.items():
        yield ask(f"check {name}", "POST", "/v1/check", raw, "Content-Type: message/rfc822")
    yield ask("check a text", "POST", "/v1/check", b"claim your free prize", "Content-Type: text/plain")
    yield ask("check nothing", "POST", "/v1/check")
    yield ask("too large", "POST", "/v1/check", b"x" * 20001)
    yield ask("compressed", "POST", "/v1/check", b"x", "Content-Encoding: gzip")
    yield ask("of a web page", "POST", "/v1/check", SPAM, "Origin: https://elsewhere.example")
    yield ask("learn", "POST", "/v1/learn?label=spam", SPAM, "User: ann")
    yield ask("learn again", "POST", "/v1/learn?label=spam", SPAM, "User: ann")
    yield ask("relearn", "POST", "/v1/learn?label=ham", SPAM, "User: ben")
    yield ask("unlearn", "POST", "/v1/unlearn", SPAM)
    yield ask("unlearn again", "POST", "/v1/unlearn", SPAM)
    yield ask("no label", "POST", "/v1/learn", SPAM)
    yield ask("a strange label", "POST", "/v1/learn?label=maybe", SPAM)
    found = re.search(r'"id": ?"([a-z2-7]{24})"', "".join(ask("id", "POST", "/v1/check", HAM).lines))
    assert found
    yield ask("a message", "GET", f"/v1/messages/{found[1]}")
    yield ask("learn by id", "POST", f"/v1/messages/{found[1]}/learn?label=ham")
    yield ask("an unknown message", "GET", f"/v1/messages/{'a' * 24}")
    yield ask("model", "GET", "/v1/model")
    yield ask("head of the model", "HEAD", "/v1/model")
    yield ask("another method", "PUT", "/v1/check", SPAM)
    yield ask("another path", "GET", "/v1/nothing")
    yield ask("healthz", "GET", "/healthz")
    yield ask("readyz", "GET", "/readyz")
    yield ask("the root", "GET", "/")
    for path in (
        "",
        "now",
        "messages",
        "thresholds",
        "teaching",
        "quarantine",
        "tokens",
        "undo",
        "login",
        "static/x",
    ):
        yield ask(f"page {path}", "GET", f"/ui/{path}")
    yield one_request(address, "no HTTP", b"HELO client.example\r\n\r\n")
    yield one_request(
        address,
        "two lengths",
        b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    )


def _rspamd(daemon: DaemonProcess) -> Iterator[Transcript]:
    address = daemon.address("http")

    def ask(name: str, method: str, path: str, body: bytes = b"", *fields: str) -> Transcript:
        return one_request(address, name, _request(method, path, body, *fields))

    envelope = "From: <from@example.org>", "Rcpt: <to@example.org>", "Queue-Id: 4ABC", "IP: 192.0.2.7", "User: ann"
    for name, raw in MESSAGES.items():
        yield ask(f"checkv2 {name}", "POST", "/checkv2", raw, *envelope)
    yield ask("checkv2 for a strict recipient", "POST", "/checkv2", SPAM, "Rcpt: strict@example.org")
    yield ask("checkv2 by GET", "GET", "/checkv2")
    for path in ("learnspam", "learnham", "learnham", "fuzzyadd"):
        yield ask(path, "POST", f"/{path}", SPAM)
    yield ask("learnclass", "POST", "/learnclass", SPAM, "Class: spam")
    yield ask("learnclass of none", "POST", "/learnclass", SPAM)
    for path in ("stat", "symbols", "ping", "healthy", "ready", "errors"):
        yield ask(path, "GET", f"/{path}")


def _spamd(address: str) -> Iterator[Transcript]:
    def ask(name: str, command_name: str, body: bytes | None, *fields: str) -> Transcript:
        lines = [f"{command_name} SPAMC/1.5", *fields]
        if body is not None:
            lines.append(f"Content-length: {len(body)}")
        return one_request(address, name, "\r\n".join([*lines, "", ""]).encode() + (body or b""), closes=True)

    yield ask("ping", "PING", None)
    yield ask("skip", "SKIP", None)
    for name, raw in MESSAGES.items():
        for verb in ("CHECK", "SYMBOLS", "REPORT", "REPORT_IFSPAM", "PROCESS", "HEADERS"):
            yield ask(f"{verb} {name}", verb, raw, "User: ann")
    yield ask("tell spam", "TELL", SPAM, "Message-class: spam", "Set: local", "User: ann")
    yield ask("tell ham", "TELL", SPAM, "Message-class: ham", "Set: local")
    yield ask("forget", "TELL", SPAM, "Remove: local")
    yield ask("tell nothing", "TELL", SPAM)
    yield ask("too large", "CHECK", b"x" * 20001)
    compressed = zlib.compress(SPAM)
    yield ask("compressed", "CHECK", compressed, "Compress: zlib")
    yield ask("badly compressed", "CHECK", b"nonsense", "Compress: zlib")
    yield ask("unknown command", "DANCE", SPAM)
    yield one_request(address, "a wrong length", b"CHECK SPAMC/1.5\r\nContent-length: 9\r\n\r\nhalf", closes=True)
    yield one_request(address, "no spamd", b"GET / HTTP/1.0\r\n\r\n", closes=True)
    yield one_request(address, "no length", b"CHECK SPAMC/1.2\r\n\r\n" + HAM, closes=True)


def _data(raw: bytes) -> bytes:
    return b"\r\n".join(b"." + line if line.startswith(b".") else line for line in raw.split(b"\r\n")) + b".\r\n"


def _transaction(raw: bytes, *recipients: bytes, per_recipient: bool = False) -> list[bytes | Content]:
    return [
        b"MAIL FROM:<from@example.org>\r\n",
        *(b"RCPT TO:<%s>\r\n" % recipient for recipient in recipients),
        b"DATA\r\n",
        Content(_data(raw), per_recipient),
    ]


def _smtp(address: str, hello: bytes) -> Iterator[Transcript]:
    for name, raw in MESSAGES.items():
        yield smtp_session(address, name, [hello, *_transaction(raw, b"to@example.org"), b"QUIT\r\n"])
    yield smtp_session(
        address,
        "several recipients",
        [
            hello,
            *_transaction(SPAM, b"to@example.org", b"strict@example.org", b"redirect@example.org"),
            b"QUIT\r\n",
        ],
    )
    yield smtp_session(address, "quarantine", [hello, *_transaction(SPAM, b"strict@example.org"), b"QUIT\r\n"])
    yield smtp_session(address, "redirect", [hello, *_transaction(SPAM, b"redirect@example.org"), b"QUIT\r\n"])
    for label in (b"spam", b"ham"):
        feedback = _transaction(MESSAGES["multipart"], label + b"@nbstream.invalid")
        yield smtp_session(address, f"feedback {label.decode()}", [hello, *feedback, b"QUIT\r\n"])
    yield smtp_session(
        address,
        "feedback and mail",
        [hello, *_transaction(HAM, b"spam@nbstream.invalid", b"to@example.org"), b"QUIT\r\n"],
    )
    yield smtp_session(
        address,
        "out of order",
        [
            b"MAIL FROM:<a@example.org>\r\n",
            hello,
            b"RCPT TO:<a@example.org>\r\n",
            b"DATA\r\n",
            b"MAIL FROM:<a@example.org\r\n",
            b"MAIL FROM:<a@example.org> SIZE=99999999\r\n",
            b"MAIL FROM:<a@example.org> BODY=8BITMIME SIZE=10\r\n",
            b"MAIL FROM:<a@example.org>\r\n",
            b"DATA\r\n",
            b"RCPT TO:<>\r\n",
            b"RSET\r\n",
            b"NOOP\r\n",
            b"VRFY ann\r\n",
            b"EXPN list\r\n",
            b"HELP\r\n",
            b"AUTH PLAIN AGEAYg==\r\n",
            b"STARTTLS\r\n",
            b"XFORWARD ADDR=192.0.2.7 NAME=client.example HELO=client.example IDENT=4ABC\r\n",
            b"XCLIENT ADDR=192.0.2.7\r\n",
            b"BDAT 3 LAST\r\n",
            b"\xff\xfe\r\n",
            b"x" * 3000 + b"\r\n",
            b"QUIT\r\n",
        ],
    )
    yield smtp_session(
        address,
        "too large",
        [hello, *_transaction(b"Subject: x\r\n\r\n" + b"y\r\n" * 7000, b"to@example.org"), b"QUIT\r\n"],
    )
    yield smtp_session(
        address,
        "bare line feeds",
        [
            hello,
            *_transaction(HAM, b"to@example.org")[:-1],
            Content(b"Subject: x\n\nsmuggled\n.\nMAIL FROM:<b@example.org>\r\n.\r\n"),
            b"QUIT\r\n",
        ],
    )
    yield smtp_session(
        address,
        "with the verdict",
        [
            hello,
            b"MAIL FROM:<from@example.org> XVERDICT\r\n",
            *_transaction(SPAM, b"to@example.org")[1:],
            b"QUIT\r\n",
        ],
    )
    yield smtp_session(
        address, "HELO", [b"HELO client.example\r\n", *_transaction(HAM, b"to@example.org"), b"QUIT\r\n"]
    )


def _lmtp(address: str) -> Iterator[Transcript]:
    hello = b"LHLO client.example\r\n"
    for name, raw in MESSAGES.items():
        steps = _transaction(raw, b"to@example.org", b"strict@example.org", per_recipient=True)
        yield smtp_session(address, name, [hello, *steps, b"QUIT\r\n"])
    yield smtp_session(
        address,
        "feedback and mail",
        [hello, *_transaction(HAM, b"spam@nbstream.invalid", b"to@example.org", per_recipient=True), b"QUIT\r\n"],
    )
    yield smtp_session(address, "EHLO", [b"EHLO client.example\r\n", b"HELO client.example\r\n", b"QUIT\r\n"])


def _milter(address: str) -> Iterator[Transcript]:
    finals = b"Ocartydq"
    head = [milter_frames.negotiation(), milter_frames.macros(b"C", {"j": "mx.test"}), milter_frames.connect()]
    for name, raw in MESSAGES.items():
        for recipients in (("to@example.org",), ("strict@example.org", "redirect@example.org")):
            frames = [
                *head,
                milter_frames.macros(b"M", {"i": "4ABC"}),
                milter_frames.mail(),
                *(milter_frames.rcpt(f"<{recipient}>") for recipient in recipients),
                *milter_frames.content(raw),
                milter_frames.END,
                milter_frames.QUIT,
            ]
            yield milter_session(address, f"{name} for {len(recipients)}", frames, finals)
    old = [milter_frames.negotiation(*milter_frames.SENDMAIL_8_12), milter_frames.QUIT]
    yield milter_session(address, "an old mail server", old, finals)


def _dovecot(address: str) -> Iterator[Transcript]:
    def ask(name: str, argument: str, raw: bytes, *variables: str) -> Transcript:
        lines = ["VERSION\tscript\t4\t0", *variables, "-", "127.0.0.1:10025", argument, "", ""]
        return one_request(address, name, "\n".join(lines).encode() + raw, closes=True)

    yield ask("spam", "spam@nbstream.invalid", SPAM, "env_USER=ann")
    yield ask("ham", "ham@nbstream.invalid", SPAM, "env_USER=ann")
    yield ask("no address of ours", "ann@example.org", SPAM, "env_USER=ann")
    yield ask("no user", "spam@nbstream.invalid", HAM)
    yield one_request(address, "no script", b"GET / HTTP/1.0\r\n\r\n", closes=True)


def _stream(redis_socket: Path) -> Iterator[Transcript]:
    entries: dict[str, dict[str, str | bytes]] = {
        **{f"raw {name}": {"raw": raw, "id": name} for name, raw in MESSAGES.items()},
        "a text": {"text": "claim your free prize", "id": "text"},
        "learn": {"raw": SPAM, "label": "spam", "from": "program", "id": "learn"},
        "a recipient": {"raw": SPAM, "to": "strict@example.org", "id": "to"},
        "no content": {"id": "none"},
        "an unknown field": {"raw": SPAM, "labell": "spam", "id": "unknown"},
        "a strange label": {"raw": SPAM, "label": "maybe", "id": "label"},
    }
    last, prefix = b"0", "nbstream:{default}:"
    with Redis(unix_socket_path=str(redis_socket), socket_timeout=DEADLINE_SECONDS) as redis:
        for name, entry in entries.items():
            redis.execute_command("XADD", f"{prefix}in", "*", *itertools.chain(*entry.items()))
            reply: Any = redis.execute_command(
                "XREAD", "COUNT", 1, "BLOCK", 10_000, "STREAMS", f"{prefix}out", last
            )
            (last, answer) = reply[0][1][0]
            lines = (line for pair in sorted(answer.items()) for line in shown("<", b"=".join(pair)))
            yield Transcript(name, tuple(lines))


def _series(daemon: DaemonProcess) -> Transcript:
    """The names and labels of all series, without their values."""
    lines = [line for line in daemon.get("/metrics")[1].splitlines() if line and not line.startswith("# HELP")]
    series = {line.rpartition(" ")[0] if not line.startswith("#") else line for line in lines}
    return Transcript("series", tuple(sorted(series)))


def _commands(file: Path, folder: Path) -> Iterator[Transcript]:
    for name, raw in MESSAGES.items():
        (folder / f"{name}.eml").write_bytes(raw)
    spam, ham = folder / "spam.eml", folder / "ham.eml"
    for words in (
        ("check", spam, ham),
        ("check", "--json", spam),
        ("explain", spam),
        ("explain", "--json", ham),
        ("learn", "spam", folder / "broken.eml"),
        ("history", "--json"),
        ("status",),
        ("model", "show", "--json"),
        ("quarantine", "list"),
        ("undo", "--id", "a" * 24),
        ("undo", "--source", "stream"),
        ("learn", "spam", folder / "missing.eml"),
        ("config", "check", file),
    ):
        words_with_config = (*words, "-c", file) if words[0] != "config" else words
        done = command(*words_with_config)
        name = " ".join(str(word).replace(f"{folder}/", "") for word in words)
        text = done.stdout
        if words == ("quarantine", "list"):  # by whole seconds, into which messages fall by chance
            text = "".join(sorted(f"(TIME)  {line.partition('  ')[2]}" for line in text.splitlines(keepends=True)))
        lines = [*shown("<", text.encode()), *shown("!", done.stderr.encode())]
        yield Transcript(name, (*_bounded(lines), f"exit {done.returncode}"))


def _bounded(lines: list[str]) -> list[str]:
    return lines if len(lines) <= 30 else [*lines[:30], f"... {len(lines)} lines"]


def _log(daemon: DaemonProcess) -> Transcript:
    """What the log has of each kind of event: its level and its fields."""
    kinds = {
        f"{event.get('level')} {event.get('event')}: {', '.join(sorted(event))}"
        for event in daemon.events
        if event.get("event") in {"message", "lesson", "reloaded", "draining", "listening", "ready"}
    }
    return Transcript("kinds of events", tuple(sorted(kinds)))


_REPLACEMENTS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d)?", "(TIME)"),
    (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{1,2} (?!Jan 2024)\w{3} 20\d\d \d\d:\d\d:\d\d ([+-]\d{4}|GMT)", "(DATE)"),
    (r"\b1[6-9]\d{11}-\d+", "(STREAM-ID)"),
    (r"\b1[6-9]\d{8}(\.\d+)?\b", "(UNIX-TIME)"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:(PORT)"),
    (r'("(?:time_real|scan_time|time|uptime|age|seconds|milliseconds)": ?)[\d.e-]+', r"\1(NUMBER)"),
    (r"\b[\d.]+ (seconds|ms|s)\b", r"(NUMBER) \1"),
    (r"\bprocess \d+", "process (PID)"),
    (r"(x)\1{99,}", "(many x)"),
    (r"(/ui/static/[a-z.]+\?)[0-9a-f]{12}", r"\1(VERSION)"),
    (r'engine="(native|python)",python="[^"]*",version="[^"]*"', "(BUILD)"),
    (r"engine   [a-z]+ [^\\]*", "engine   (ENGINE)"),
)


def _without_the_moment(text: str, folder: Path, redis_socket: Path) -> str:
    text = text.replace(str(redis_socket), "(REDIS)").replace(str(folder), "(FOLDER)")
    for pattern, replacement in _REPLACEMENTS:
        text = re.sub(pattern, replacement, text)
    # The time that a check took, and the uptime, have not always as many digits.
    return re.sub(r"(?s)(=== (?:checkv2|stat\n).*?< Content-Length: )\d+", r"\1(NUMBER)", text)
