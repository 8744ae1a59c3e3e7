"""TLS with the next hop, by STARTTLS or from the first byte, and the login there."""

from __future__ import annotations

import logging
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import MappingProxyType

import pytest

from nbstream.delivery.next_hop import SmtpPath
from nbstream.delivery.settings import RelaySettings, TlsLevel
from nbstream.delivery.smtp_next_hop import SmtpNextHop
from nbstream.errors import RelayUnavailable
from tests.harness.redis.access import Certificates
from tests.harness.scripted import relay_at
from tests.harness.scripted_server import ScriptedServer

OFF, MAY, ENCRYPT, VERIFY = TlsLevel
ALL_TLS = [MAY, ENCRYPT, VERIFY]

GREETING = "S: 220 server.test ESMTP\n"
HELLO = "C: EHLO [127.0.0.1]\n"
PLAIN = "S: 250-server.test\nS: 250 SIZE 1000\n"
WITH_STARTTLS = "S: 250-server.test\nS: 250-STARTTLS\nS: 250-AUTH PLAIN\nS: 250 DSN\n"
STARTTLS = GREETING + HELLO + WITH_STARTTLS + "C: STARTTLS\n"
UNDER_TLS = HELLO + "S: 250-server.test\nS: 250-AUTH LOGIN PLAIN\nS: 250 8BITMIME\n"
UPGRADE = STARTTLS + "S: 220 2.0.0 Ready\nS: tls\n"
NOOP = "C: NOOP\nS: 250 2.0.0 Ok\n"
MAIL = "C: MAIL FROM:<alice@a.test>\nS: 250 2.1.0 Ok\n"
GONE = "C: gone\n"

PASSWORD = "open sesame"
ASK_PLAIN = f"C: AUTH PLAIN {b64encode(f'{chr(0)}ann{chr(0)}{PASSWORD}'.encode()).decode()}\n"


class Site:
    """Certificates, servers that have them, and next hops that trust them or not."""

    def __init__(self, certificates: dict[str, Certificates], stack: AsyncExitStack) -> None:
        self.certificates = certificates
        self._stack = stack

    async def play(self, *transcripts: str, shown: str = "good") -> ScriptedServer:
        files = self.certificates[shown]
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(files.certificate, files.key)
        server = ScriptedServer(transcripts, without_opening=True, tls=context)
        await server.start()
        self._stack.push_async_callback(server.stop)
        return server

    def next_hop(
        self,
        server: ScriptedServer,
        mode: TlsLevel,
        login: Mapping[str, Path] = MappingProxyType({}),
        *,
        trusted: str = "good",
        implicit: bool = False,
    ) -> SmtpNextHop:
        values: dict[str, object] = {
            "next_hop": f"{'smtps' if implicit else 'smtp'}://127.0.0.1:{server.port}",
            "tls": mode,
            **login,
        }
        if mode is VERIFY:
            values["tls_ca_file"] = self.certificates[trusted].authority
        next_hop = SmtpNextHop(RelaySettings.model_validate(values))
        self._stack.push_async_callback(next_hop.close)
        return next_hop


@pytest.fixture(scope="module")
def certificates(
    tmp_path_factory: pytest.TempPathFactory, program: Callable[[str], str]
) -> dict[str, Certificates]:
    """Of a server, of another authority, and of servers whose certificate has expired or has another name."""

    def make(days: int = 2, name: str = "IP:127.0.0.1") -> Certificates:
        return Certificates.make(program("openssl"), tmp_path_factory.mktemp("certificates"), (name,), days)

    return {"good": make(), "other": make(), "expired": make(-1), "name": make(name="DNS:elsewhere.test")}


@pytest.fixture
def login(tmp_path: Path) -> Mapping[str, Path]:
    files = {"user_file": tmp_path / "user", "password_file": tmp_path / "password"}
    for path, secret in zip(files.values(), ("ann", PASSWORD), strict=True):
        path.write_text(f"{secret}\n")
    return files


@pytest.fixture
async def site(certificates: dict[str, Certificates]) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        yield Site(certificates, stack)


@pytest.mark.parametrize("mode", ALL_TLS)
async def test_mail_goes_under_tls_and_extensions_are_those_under_tls(mode: TlsLevel, site: Site) -> None:
    server = await site.play(UPGRADE + UNDER_TLS + NOOP + MAIL)
    next_hop = site.next_hop(server, mode)

    assert await next_hop.features() == {"AUTH", "8BITMIME"}
    await next_hop.begin(SmtpPath("alice@a.test"))  # on the same connection
    await server.played()


@pytest.mark.parametrize("mode", [ENCRYPT, VERIFY])
async def test_tls_from_the_first_byte(mode: TlsLevel, site: Site) -> None:
    server = await site.play("S: tls\n" + GREETING + HELLO + WITH_STARTTLS + MAIL)

    await site.next_hop(server, mode, implicit=True).begin(SmtpPath("alice@a.test"))

    await server.played()


REFUSALS = {
    "not offered": GREETING + HELLO + PLAIN,
    "refused": STARTTLS + "S: 454 4.7.0 TLS not available\n",
    "unknown": STARTTLS + "S: 502 5.5.1 What?\n",
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("mode", ALL_TLS)
async def test_only_may_sends_in_plain_text_where_there_is_no_starttls(
    mode: TlsLevel, refusal: str, site: Site
) -> None:
    server = await site.play(refusal + (MAIL if mode is MAY else GONE))
    next_hop = site.next_hop(server, mode)

    if mode is MAY:
        await next_hop.begin(SmtpPath("alice@a.test"))
    else:
        assert await next_hop.problem() == "offers no TLS"
        assert server.last_words == b""
    await server.played()


@pytest.mark.parametrize("implicit", [False, True], ids=["STARTTLS", "implicit"])
@pytest.mark.parametrize("fault", ["authority", "name", "expired"])
@pytest.mark.parametrize("mode", [ENCRYPT, VERIFY])
async def test_only_verify_asks_for_a_good_certificate(
    mode: TlsLevel, fault: str, implicit: bool, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "asyncio")  # of the server, whose handshake fails
    shown, trusted = ("good", "other") if fault == "authority" else (fault, fault)
    beginning = "S: tls\n" + GREETING + HELLO + PLAIN if implicit else UPGRADE + UNDER_TLS
    server = await site.play(beginning + NOOP, shown=shown)
    next_hop = site.next_hop(server, mode, trusted=trusted, implicit=implicit)

    if mode is VERIFY:
        assert await next_hop.problem() == "has no valid certificate"
        with pytest.raises(OSError):  # noqa: PT011 - whatever TLS says of a client that leaves
            await server.played()
    else:
        assert await next_hop.problem() is None
        await server.played()


@pytest.mark.parametrize("mode", ALL_TLS)
async def test_tls_that_fails_is_not_replaced_by_plain_text(mode: TlsLevel, site: Site) -> None:
    server = await site.play(STARTTLS + "S: 220 2.0.0 Ready\nC: some\nS: this is no TLS\n" + GONE)

    assert await site.next_hop(server, mode).problem() == "TLS failed"
    await server.played()
    assert b"EHLO" not in server.last_words
    assert b"NOOP" not in server.last_words


@pytest.mark.parametrize("mode", ALL_TLS)
async def test_plain_text_behind_starttls_is_never_read_under_tls(
    mode: TlsLevel, site: Site, login: Mapping[str, Path]
) -> None:
    injected = "S: 220-2.0.0\nS: 220 2.0.0 Ready\nS: 250-evil.test\nS: 250 AUTH PLAIN\n"
    server = await site.play(STARTTLS + injected + GONE)
    next_hop = site.next_hop(server, mode, login)

    with pytest.raises(RelayUnavailable):
        await next_hop.begin(SmtpPath("alice@a.test"))
    await server.played()
    assert b"AUTH" not in server.last_words


async def test_a_new_authority_is_trusted_after_a_reload(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "asyncio")
    server = await site.play(UPGRADE, UPGRADE + UNDER_TLS + NOOP)
    trusted = tmp_path / "ca.pem"
    trusted.write_bytes(site.certificates["other"].authority.read_bytes())
    next_hop = SmtpNextHop(relay_at(server.port, tls="verify", tls_ca_file=str(trusted)))
    assert await next_hop.problem() == "has no valid certificate"

    trusted.write_bytes(site.certificates["good"].authority.read_bytes())
    next_hop.read_authorities_again()

    assert await next_hop.problem() is None
    await next_hop.close()


async def test_a_login_in_one_line(site: Site, login: Mapping[str, Path]) -> None:
    server = await site.play(UPGRADE + UNDER_TLS + ASK_PLAIN + "S: 235 2.7.0 Welcome\n" + MAIL)

    await site.next_hop(server, VERIFY, login).begin(SmtpPath("alice@a.test"))

    await server.played()


async def test_a_login_by_questions(site: Site, login: Mapping[str, Path]) -> None:
    user, password = (b64encode(text.encode()).decode() for text in ("ann", PASSWORD))
    server = await site.play(
        GREETING
        + HELLO
        + "S: 250-server.test\nS: 250 AUTH LOGIN\nC: AUTH LOGIN\nS: 334 VXNlcm5hbWU6\n"
        + f"C: {user}\nS: 334 UGFzc3dvcmQ6\nC: {password}\nS: 235 2.7.0 Welcome\n"
        + MAIL
    )

    await site.next_hop(server, OFF, login).begin(SmtpPath("alice@a.test"))

    await server.played()


LOGIN_REFUSALS = {
    "wrong password": ("S: 535 5.7.8 No: AUTH PLAIN ", "refuses the login"),
    "not now": ("S: 454 4.7.0 Later: AUTH PLAIN ", "refuses the login"),
    "a question": ("S: 334 ", "refuses the login"),
    "garbage": ("S: ", "refuses the login"),
}


@pytest.mark.parametrize(("answer", "problem"), LOGIN_REFUSALS.values(), ids=LOGIN_REFUSALS)
async def test_a_refused_login_names_no_secret(
    answer: str, problem: str, site: Site, login: Mapping[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    secret = ASK_PLAIN.removeprefix("C: AUTH PLAIN ").strip()
    transcript = (
        GREETING + HELLO + WITH_STARTTLS + ASK_PLAIN + answer + secret + "\n" + GONE
    )  # which the server repeats
    server = await site.play(transcript, transcript)
    next_hop = site.next_hop(server, OFF, login)
    caplog.set_level(logging.DEBUG)

    assert await next_hop.problem() == problem
    with pytest.raises(RelayUnavailable) as unavailable:
        await next_hop.begin(SmtpPath("alice@a.test"))

    said = f"{unavailable.value!r} {caplog.text}"
    assert "login" in said
    assert secret not in said
    assert PASSWORD not in said
    await server.played()
