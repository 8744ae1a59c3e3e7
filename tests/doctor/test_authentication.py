"""Results of SPF, DKIM and DMARC: settings are proposed where Postfix provably removes forged ones."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
import yaml

from nbstream.doctor import authentication
from nbstream.doctor.authentication import examine_authentication
from nbstream.findings import Finding
from tests.doctor.examined_postfix import ExaminedPostfix
from tests.doctor.sites import kind_names, the
from tests.handbook.pages import page

MILTERS = "smtpd_milters=inet:127.0.0.1:8891, inet:127.0.0.1:8893"
REMOVING = r"/^Authentication-Results[[:space:]]*:/ IGNORE"
IDS = "trusted_authserv_ids: [mx.example.org]\n"


@pytest.fixture
def guarded(postfix: ExaminedPostfix, tmp_path: Path) -> ExaminedPostfix:
    """A Postfix with milters, whose header checks are those of the handbook."""
    (pattern,) = re.findall(r"^ +(/\^Authentication-Results.*)", page("guides/postfix.md"), re.MULTILINE)
    assert pattern == REMOVING
    check_headers(postfix, tmp_path, pattern)
    postfix.set(MILTERS)
    return postfix


def check_headers(postfix: ExaminedPostfix, folder: Path, *patterns: str) -> None:
    file = folder / "header_checks"
    file.write_text("\n".join(patterns) + "\n")
    postfix.set(f"header_checks=regexp:{file}")


async def examined(postfix: ExaminedPostfix, text: str = "", *milters: Path) -> list[Finding]:
    return list(await examine_authentication(postfix.site(text, milters)))


def proposed(findings: list[Finding]) -> object:
    """The settings of the lines that can be pasted."""
    return yaml.safe_load(the(findings, authentication.PROPOSED).remedy.partition("\n")[2])


async def test_the_lines_can_be_pasted_and_are_then_fine(guarded: ExaminedPostfix) -> None:
    found = await examined(guarded)

    assert proposed(found) == {"trusted_authserv_ids": ["mx.example.org"], "own_received_fields": 1}
    lines = the(found, authentication.PROPOSED).remedy.partition("\n")[2]
    the(await examined(guarded, lines), authentication.READ)


async def test_a_milter_sees_no_received_field_of_postfix(guarded: ExaminedPostfix) -> None:
    guarded.set_service(guarded.outside, "content_filter=")
    guarded.set(f"{MILTERS}, inet:localhost:11332, inet:127.0.0.1:8895")

    found = await examined(guarded, "listeners: {milter: {listen: '127.0.0.1:11332'}}\n")

    assert proposed(found) == {"trusted_authserv_ids": ["mx.example.org"], "own_received_fields": 0}
    assert "8893" in found[0].what
    assert "8895" not in found[0].what  # it comes after nbstream


async def test_the_names_are_those_of_the_milters_too(guarded: ExaminedPostfix, tmp_path: Path) -> None:
    dkim, dmarc = tmp_path / "opendkim.conf", tmp_path / "opendmarc.conf"
    dkim.write_text(
        "# AuthservID no.example\nSyslog yes\nAuthservID\tDKIM.example.org\nSocket inet:8891@localhost\n"
    )
    dmarc.write_text("AuthservID HOSTNAME\n")

    found = await examined(guarded, "", dkim, dmarc, tmp_path / "missing.conf")

    names = ["mx.example.org", "dkim.example.org", socket.gethostname().lower()]
    assert proposed(found) == {"trusted_authserv_ids": names, "own_received_fields": 1}


async def test_names_that_are_trusted_stay(guarded: ExaminedPostfix) -> None:
    found = await examined(guarded, "trusted_authserv_ids: [old.example.org, mx.example.org]\n")

    assert proposed(found) == {
        "trusted_authserv_ids": ["old.example.org", "mx.example.org"],
        "own_received_fields": 1,
    }


@pytest.mark.parametrize(
    "patterns",
    [
        (r"/^Authentication-Results: mx\.example\.org;/ IGNORE",),
        (r"/^Authentication-Results:/ IGNORE",),  # white space before the colon
        (r"/^Authentication-Results *:.*mx/ WARN", REMOVING),  # the first answer counts
        (r"/^Authentication-Results[[:space:]]*:.*mx\.example\.org/ IGNORE",),  # a name may be escaped
        (r"/^Authentication-Results/ PREPEND X-Forged: yes",),
        (r"/^X-Other:/ IGNORE",),
        ("if /^X/", REMOVING, "endif"),
    ],
)
async def test_checks_that_let_a_forgery_through_prove_nothing(
    guarded: ExaminedPostfix, tmp_path: Path, patterns: tuple[str, ...]
) -> None:
    check_headers(guarded, tmp_path, *patterns)

    assert kind_names(await examined(guarded)) == {"authentication.NOT_REMOVED"}
    assert kind_names(await examined(guarded, f"{IDS}own_received_fields: 1\n")) == {"authentication.FORGEABLE"}


async def test_checks_that_do_not_see_all_mail_prove_nothing(guarded: ExaminedPostfix) -> None:
    guarded.set_service(guarded.outside, "receive_override_options=no_header_body_checks")
    the(await examined(guarded), authentication.NOT_REMOVED)

    guarded.set_service(guarded.outside, "receive_override_options=no_address_mappings")
    the(await examined(guarded), authentication.PROPOSED)
    guarded.set_service("cleanup/unix", "header_checks=")
    the(await examined(guarded), authentication.NOT_REMOVED)


@pytest.mark.parametrize(
    "setting", ["cleanup_replace_stray_cr_lf=no", "header_checks=regexp:/nowhere", "header_checks="]
)
async def test_what_hides_a_field_from_the_checks_or_the_checks_from_us(
    guarded: ExaminedPostfix, setting: str
) -> None:
    guarded.set(setting)

    the(await examined(guarded), authentication.NOT_REMOVED)


async def test_a_table_that_cannot_be_read_may_let_a_forgery_through_before_the_others_see_it(
    guarded: ExaminedPostfix, tmp_path: Path
) -> None:
    removing, silent = f"regexp:{tmp_path / 'header_checks'}", tmp_path / "silent"
    silent.write_text("/^X-Other:/ IGNORE\n/no request/\n")
    guarded.set(f"header_checks=regexp:{silent}, {removing}")
    the(await examined(guarded), authentication.PROPOSED)

    guarded.set(f"header_checks=regexp:/nowhere, {removing}")
    the(await examined(guarded), authentication.NOT_REMOVED)


async def test_trust_without_removal_is_safe_above_the_field_that_postfix_writes(
    guarded: ExaminedPostfix,
) -> None:
    guarded.set("header_checks=")

    assert kind_names(await examined(guarded, IDS)) == {"authentication.NOT_REMOVED"}
    guarded.set_service(guarded.outside, "content_filter=")
    guarded.set(f"{MILTERS}, inet:localhost:11332")
    text = "listeners: {milter: {listen: '127.0.0.1:11332'}}\n"
    assert kind_names(await examined(guarded, text + IDS)) == {"authentication.FORGEABLE"}


async def test_a_name_that_nobody_here_writes(guarded: ExaminedPostfix) -> None:
    found = await examined(guarded, "trusted_authserv_ids: [mx.example.net]\n")

    assert "mx.example.org" in the(found, authentication.OTHER_AUTHSERV_ID).what
    found = await examined(guarded, "trusted_authserv_ids: [example.org]\n")
    the(found, authentication.PROPOSED)  # mydomain is believed


async def test_nothing_is_proposed_where_another_filter_is_in_the_way(guarded: ExaminedPostfix) -> None:
    guarded.set("content_filter=smtp-amavis:[127.0.0.1]:10024")

    assert await examined(guarded, IDS) == []


async def test_nothing_is_proposed_where_no_milter_writes_results(postfix: ExaminedPostfix) -> None:
    assert await examined(postfix) == []


async def test_milters_and_header_checks_come_after_a_proxy(guarded: ExaminedPostfix) -> None:
    proxy = f"smtpd_proxy_filter=127.0.0.1:{guarded.filter_port}"
    guarded.set_service(guarded.outside, "content_filter=", proxy)

    assert await examined(guarded) == []
    assert await examined(guarded, IDS) == []  # above the Received field of Postfix
    the(await examined(guarded, f"{IDS}own_received_fields: 1\n"), authentication.FORGEABLE)
