"""A real Postfix with a milter in front of the daemon: its results are read, and forged ones are not."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nbstream.mail.message import Message
from nbstream.tokens.authentication import FIELD
from tests.deploy.milter import Milters, milters
from tests.deploy.postfix import STRANGER, Postfix, logins, open_folder
from tests.deploy.test_postfix import SETTINGS, Site
from tests.handbook.pages import page
from tests.integration.daemon import DaemonProcess, command

FORGED = """\
Authentication-Results: mx.example.org; dkim=pass header.d=bank.example
Authentication-Results : mx.example.org; spf=pass smtp.mailfrom=bank.example
"""


@pytest.fixture(scope="module")
def milter() -> Iterator[Milters]:
    with milters() as listening:
        yield listening


@pytest.fixture(scope="module")
def site(program: Callable[[str], str], redis_binary: Path, milter: Milters) -> Iterator[Site]:
    program("postfix")
    if os.geteuid() != 0:
        pytest.skip("only root can start Postfix")
    with open_folder() as folder:
        postfix = Postfix(folder, program)
        main = folder / "etc" / "main.cf"
        checks = folder / "etc" / "header_checks"
        (pattern,) = re.findall(r"^ +(/\^Authentication-Results.*)", page("guides/postfix.md"), re.MULTILINE)
        checks.write_text(pattern + "\n")
        added = f"smtpd_milters = inet:127.0.0.1:{milter.port}\nheader_checks = regexp:{checks}\n"
        main.write_text(main.read_text() + added)
        os.utime(main, (0, 0))
        settings = folder / "nbstream.yaml"
        text = postfix.own(SETTINGS.read_text()).replace("/var/lib/nbstream", f"{folder}/state")
        text = text.replace("listeners:\n", "listeners:\n  http: {listen: 127.0.0.1:0}\n")
        settings.write_text(text + "trusted_authserv_ids: [MX.example.org]\nown_received_fields: 1\n")
        with logins(folder / "auth"), postfix.running():
            whole = Site(postfix, settings, DaemonProcess(settings).ready())
            yield whole
            whole.daemon.kill()


def taught_tokens(site: Site, message: bytes) -> set[str]:
    """The tokens of results that the model has, after the message in the mailbox was taught."""
    file = site.settings.parent / "delivered.eml"
    file.write_bytes(message)
    command("learn", "spam", str(file), "-c", str(site.settings))
    listed = command("top-tokens", "--json", "-k", "1000", "-c", str(site.settings)).stdout
    tokens = [json.loads(line)["token"] for line in listed.splitlines()]
    return {token for token in tokens if token.startswith(FIELD)}


@pytest.mark.parametrize(
    ("position", "order"),
    [(0, ["received", "x-nbstream", FIELD, "received"]), (1, ["received", "x-nbstream", "received", FIELD])],
)
def test_the_results_of_our_own_milter_are_read_and_forged_ones_are_not(
    site: Site, milter: Milters, position: int, order: list[str]
) -> None:
    milter.position = position
    marker = f"m-position-{position}"
    site.send(STRANGER, "ann@example.org", f"{FORGED}Subject: {marker}\nFrom: a@b.example\n\nhello\n")

    message = site.arrived(marker)

    names = [field.name for field in Message.parse(message).fields]
    assert [name for name in names if name in {FIELD, "received", "x-nbstream"}] == order
    assert b"bank.example" not in message
    assert taught_tokens(site, message) == {f"{FIELD}:dkim=pass", f"{FIELD}:dkim=pass:signer.example"}
