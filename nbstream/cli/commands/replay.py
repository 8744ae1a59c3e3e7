"""``nbstream replay``: stream a labelled corpus through a running daemon by real SMTP, and count its errors.

Rules: every message is sent before its label; feedback is a forward with the message attached, to the
feedback address. What is deferred (4xx, or a connection that breaks) is sent again, feedback behind the mail;
only a daemon that stays away ends the replay.
"""

from __future__ import annotations

import argparse
import json
import re
import smtplib
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tqdm import tqdm

from nbstream import config
from nbstream.addresses import TcpAddress
from nbstream.bayes.counts import CLASSES
from nbstream.errors import ConfigError, InputError, RelayRefused, RelayUnavailable
from nbstream.evaluation.streams import IndexLine, read_index
from nbstream.mail.lines import normalize_line_ends

if TYPE_CHECKING:
    from nbstream.config import Settings

_SENDER = "replay@nbstream.invalid"
_RECIPIENT = "inbox@nbstream.invalid"
_BOUNDARY = b"=_nbstream_replay_8c1f"
_LEARNING_REASON = re.compile(r"\d/\d+ known")  # a feedback reply while messages are missing
_VERDICT_REPLY = re.compile(r"nbstream id=(\S+) verdict=(\S+) probability=(\S+)\s*\Z")
_PATIENCE_SECONDS = 120.0
_FIRST_SECONDS = 5.0
_RETRY_SECONDS = 0.2
_TIMEOUT_SECONDS = 60.0


class ReplayClient:
    """One SMTP connection to the daemon, opened again when it breaks."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._connection: smtplib.SMTP | None = None
        self._was_reached = False
        self._problem = ""
        self.deferred = 0

    def send(self, recipient: str, content: bytes) -> str:
        """Send until it is accepted, and return the reply's text; waits out what is temporary.

        Raises ``RelayUnavailable`` when that takes longer than two minutes (five seconds, the first time), and
        ``RelayRefused`` for a 5xx.
        """
        until = time.monotonic() + (_PATIENCE_SECONDS if self._was_reached else _FIRST_SECONDS)
        while True:
            reply = self.try_send(recipient, content)
            if reply is not None:
                self._was_reached = True
                return reply
            if time.monotonic() > until:
                host, port = self._address
                raise RelayUnavailable(
                    f"{host}:{port} does not accept a message ({self._problem}): is it running?"
                )
            time.sleep(_RETRY_SECONDS)

    def try_send(self, recipient: str, content: bytes) -> str | None:
        """Send once and return the reply's text; None when it was deferred or the connection broke.

        A refusal that names a verdict is an answer too. Raises ``RelayRefused`` for any other 5xx.
        """
        try:
            code, text = self._transaction(recipient, content)
        except smtplib.SMTPDataError as error:
            code, text = error.smtp_code, error.smtp_error if isinstance(error.smtp_error, bytes) else b""
            self.close()
        except (OSError, smtplib.SMTPException) as error:
            self.close()
            code, text = 451, str(error).encode()
        reply = text.decode("utf-8", "replace")
        if code < 300 or (
            code >= 500 and _VERDICT_REPLY.search(reply)
        ):  # a 451 names one too, of mail that the client still has to deliver
            return reply
        if code >= 500:
            raise RelayRefused(code, reply)
        self.deferred += 1
        self._problem = reply
        return None

    def _transaction(self, recipient: str, content: bytes) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = smtplib.SMTP(*self._address, timeout=_TIMEOUT_SECONDS)
            self._connection.ehlo("replay.nbstream.invalid")
        ask_verdict = ["XVERDICT"] if self._connection.has_extn("xverdict") else []
        code, text = self._connection.mail(_SENDER, ["BODY=8BITMIME", *ask_verdict])
        if code < 300:
            code, text = self._connection.rcpt(recipient)
        if code < 300:
            code, text = self._connection.data(content)
        if code >= 300:
            self._connection.rset()
        return code, text

    def close(self) -> None:
        """Close the connection, with QUIT if it is still open."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.quit()
            except (OSError, smtplib.SMTPException):
                connection.close()


class Replay:
    """Sends a stream and its labels through a client, and counts the verdicts.

    By label: ``measured`` are the messages whose verdicts count, ``wrong`` those of them that were misjudged: ham
    called spam, and spam called anything else (hm and sm, as TREC defines them).
    """

    def __init__(self, settings: Settings, client: ReplayClient, regime: str, skip: int) -> None:
        self._client = client
        self._regime = regime
        self._skip = skip
        self._addresses = {"spam": settings.feedback.spam_address, "ham": settings.feedback.ham_address}
        self._waiting_labels: deque[tuple[str, bytes]] = deque()
        self._learning = True  # until a verdict or a feedback reply says otherwise
        self._sent = 0
        self.labels_sent = 0
        self.measured = dict.fromkeys(CLASSES, 0)
        self.wrong = dict.fromkeys(CLASSES, 0)

    def send(self, label: str, raw: bytes) -> None:
        """Send one message, and its label where the regime gives it."""
        content = normalize_line_ends(raw)
        reply = self._client.send(_RECIPIENT, content)
        match = _VERDICT_REPLY.search(reply)
        if match is None:
            raise ConfigError(
                f"the daemon did not say its verdict; is this host in its feedback.allow_from? {reply}"
            )
        verdict = match[2]
        self._sent += 1
        if self._sent > self._skip:
            self.measured[label] += 1
            self.wrong[label] += (verdict in {"spam", "reject"}) != (label == "spam")
        if self._sends_label(label, verdict):
            self._waiting_labels.append((label, wrap_as_forward(content)))
            self._send_labels(self._client.try_send)

    def finish(self) -> None:
        """Send the labels that were deferred."""
        self._send_labels(self._client.send)

    def percent(self, label: str) -> float:
        """Return the share of this label's messages that were misjudged, in percent."""
        return 100.0 * self.wrong[label] / self.measured[label] if self.measured[label] else 0.0

    def _sends_label(self, label: str, verdict: str) -> bool:
        if self._regime in {"immediate", "none"}:
            return self._regime == "immediate"
        self._learning = self._learning and verdict == "unsure"  # a model that learns calls everything unsure
        if self._learning:
            return True
        wrong = {"ham": verdict in {"spam", "reject"}, "spam": verdict == "ham"}[label]
        return wrong or (self._regime == "unsure" and verdict == "unsure")

    def _send_labels(self, send: Callable[[str, bytes], str | None]) -> None:
        """Send the labels that wait, oldest first, until the daemon defers one."""
        while self._waiting_labels:
            label, content = self._waiting_labels[0]
            reply = send(self._addresses[label], content)
            if reply is None:
                return
            self.labels_sent += 1
            self._learning = _LEARNING_REASON.search(reply) is not None
            self._waiting_labels.popleft()


def wrap_as_forward(content: bytes) -> bytes:
    """Return a forward with ``content`` (CRLF line ends) attached, as mail programs send it."""
    head = (
        b"From: <" + _SENDER.encode() + b">\r\nSubject: Fwd\r\nMIME-Version: 1.0\r\n"
        b'Content-Type: multipart/mixed; boundary="' + _BOUNDARY + b'"\r\n\r\n--' + _BOUNDARY + b"\r\n"
        b"Content-Type: text/plain\r\n\r\nThis one.\r\n--" + _BOUNDARY + b"\r\n"
        b"Content-Type: message/rfc822\r\nContent-Disposition: attachment\r\n\r\n"
    )
    return head + content + b"\r\n--" + _BOUNDARY + b"--\r\n"


def run(options: argparse.Namespace) -> int:
    """Replay the stream and print the result; 75 when the daemon stays away."""
    settings = config.load_settings(config.find_config_file(options.config))
    lines = read_index(options.index, options.limit)
    client = ReplayClient(*_daemon_address(options.smtp, settings))
    replay = Replay(settings, client, options.feedback, options.skip)
    started = time.monotonic()
    try:
        for label, raw in _with_progress(lines, replay):
            replay.send(label, raw)
        replay.finish()
    finally:
        client.close()
    _print_report(replay, client, len(lines), time.monotonic() - started, as_json=options.json)
    return 0


def _daemon_address(smtp: tuple[str, int] | None, settings: Settings) -> tuple[str, int]:
    if smtp:
        return smtp
    if settings.listeners.smtp is None:
        raise ConfigError("listeners.smtp is null: say where the daemon is with --smtp HOST:PORT")
    address = settings.listeners.smtp.listen
    if not isinstance(address, TcpAddress):
        raise ConfigError("listeners.smtp.listen is a unix socket: say where the daemon is with --smtp HOST:PORT")
    return address.host, address.port


def _with_progress(lines: list[IndexLine], replay: Replay) -> Iterator[tuple[str, bytes]]:
    """Yield the messages, with a progress bar on a terminal that shows the rates so far."""
    with tqdm(lines, unit="msg", disable=not sys.stderr.isatty(), smoothing=0.05) as bar:
        for label, path, _ in bar:
            try:
                raw = path.read_bytes()
            except OSError as error:
                raise InputError(f"{path}: {error.strerror}") from error
            yield label, raw
            rates = f"hm {replay.percent('ham'):.2f}% sm {replay.percent('spam'):.2f}%"
            bar.set_postfix_str(rates, refresh=False)


def _print_report(replay: Replay, client: ReplayClient, sent: int, seconds: float, *, as_json: bool) -> None:
    result = {
        "messages": sent,
        "measured": sum(replay.measured.values()),
        **{label: replay.measured[label] for label in ("spam", "ham")},
        "hm_percent": round(replay.percent("ham"), 4),
        "sm_percent": round(replay.percent("spam"), 4),
        "learned": replay.labels_sent,
        "deferred": client.deferred,
        "seconds": round(seconds, 2),
        "messages_per_second": round(sent / seconds, 1) if seconds else 0.0,
    }
    if as_json:
        print(json.dumps(result))
        return
    print(
        f"{sent} messages in {seconds:.1f} s ({result['messages_per_second']} a second), "
        f"{replay.labels_sent} labels sent, {client.deferred} deferrals\n"
        f"hm {result['hm_percent']}%: {replay.wrong['ham']} of {result['ham']} ham called spam\n"
        f"sm {result['sm_percent']}%: {replay.wrong['spam']} of {result['spam']} spam not so called"
    )
