"""Postfix: the real ``postconf``, on the configuration of the handbook and on what people make of it."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from nbstream.doctor import postfix as doctor
from nbstream.doctor.examination import MailServerFiles
from nbstream.doctor.postfix import examine_postfix
from nbstream.doctor.postfix_configuration import tcp_endpoint
from nbstream.findings import FindingKind
from tests.deploy.postfix import open_folder
from tests.doctor.examined_postfix import ExaminedPostfix
from tests.doctor.sites import is_of, kind_names, make_site, the, wrong


async def test_the_configuration_of_the_handbook_is_fine(postfix: ExaminedPostfix) -> None:
    found = await postfix.findings()

    assert wrong(found) == []
    assert kind_names(found) == {"postfix.CONNECTED", "postfix.FEEDBACK_GUARDED", "postfix.SIZE"}


async def test_a_way_back_that_leads_to_nbstream_again_is_a_loop(postfix: ExaminedPostfix) -> None:
    filtered = f"nbstream:[127.0.0.1]:{postfix.site().settings.listeners.smtp.listen.port}"  # type: ignore[union-attr]
    postfix.set_service(postfix.back, f"content_filter={filtered}")

    assert postfix.back in the(await postfix.findings(), doctor.LOOP).what


async def test_a_next_hop_that_is_the_filtered_service_is_a_loop(postfix: ExaminedPostfix) -> None:
    port = int(postfix.outside.partition("/")[0].rpartition(":")[2])

    the(postfix.compared(next_hop=tcp_endpoint("127.0.0.1", port)), doctor.LOOP)


async def test_milters_on_the_way_back_run_twice(postfix: ExaminedPostfix) -> None:
    postfix.set("smtpd_milters=inet:127.0.0.1:8891")
    assert "postfix.MILTERS_TWICE" not in kind_names(await postfix.findings())
    postfix.set_service(postfix.back, "receive_override_options=no_header_body_checks")

    the(await postfix.findings(), doctor.MILTERS_TWICE)


async def test_a_service_that_leads_to_nbstream_by_two_ways(postfix: ExaminedPostfix) -> None:
    port = postfix.site().settings.listeners.smtp.listen.port  # type: ignore[union-attr]  # it is on
    postfix.set_service(postfix.outside, f"smtpd_proxy_filter=127.0.0.1:{port}")

    finding = the(await postfix.findings(), doctor.TWO_WAYS)

    assert "content_filter, smtpd_proxy_filter" in finding.what


async def test_a_proxy_and_a_milter_are_two_ways(postfix: ExaminedPostfix) -> None:
    postfix.set("smtpd_milters=inet:localhost:11332")

    the(postfix.compared(listeners=postfix.with_milter, size_limit=0), doctor.TWO_WAYS)


async def test_a_postfix_that_leads_nothing_to_nbstream_is_noted(postfix: ExaminedPostfix) -> None:
    postfix.set_service(postfix.outside, "content_filter=")
    postfix.set("transport_maps=")
    found = await postfix.findings()

    the(found, doctor.NOT_CONNECTED)
    assert wrong(found) == []


async def test_a_transport_leads_mail_to_nbstream_too(postfix: ExaminedPostfix) -> None:
    port = postfix.site().settings.listeners.smtp.listen.port  # type: ignore[union-attr]
    postfix.set_service(postfix.outside, "content_filter=")
    postfix.set(f"virtual_transport=nbstream:[127.0.0.1]:{port}", "message_size_limit=60000000")

    found = await postfix.findings("verdict: {reject: 0.99}\n")

    assert "virtual_transport" in the(found, doctor.TRANSPORT).what
    assert "postfix.TOO_LARGE" in kind_names(found)
    assert "verdict.reject" in the(found, doctor.REFUSED_LATE).what


@pytest.mark.parametrize(
    "restrictions",
    ["permit_mynetworks, permit_sasl_authenticated", "permit_mynetworks, reject_unauth_destination"],
)
async def test_feedback_addresses_without_their_guard_are_open(
    postfix: ExaminedPostfix, restrictions: str
) -> None:
    postfix.set(f"smtpd_relay_restrictions={restrictions}", "relay_domains=nbstream.invalid")

    found = [finding for finding in await postfix.findings() if finding.check == "postfix.feedback"]

    assert {"postfix.FEEDBACK_OPEN"} == kind_names(found)
    assert {"spam@nbstream.invalid", "ham@nbstream.invalid"} == {
        word for finding in found for word in finding.what.split() if "@" in word
    }
    assert doctor.FEEDBACK_OPEN.check == "postfix.feedback"


async def test_a_domain_that_strangers_may_not_relay_to_needs_no_table(postfix: ExaminedPostfix) -> None:
    postfix.set("smtpd_relay_restrictions=permit_mynetworks, reject_unauth_destination")

    the(await postfix.findings(), doctor.FEEDBACK_GUARDED)


async def test_feedback_that_a_transport_leads_to_nbstream_needs_the_guard_too(postfix: ExaminedPostfix) -> None:
    postfix.set_service(postfix.outside, "content_filter=")
    postfix.set("smtpd_relay_restrictions=permit_mynetworks", "relay_domains=nbstream.invalid")

    found = await postfix.findings()

    assert {"postfix.NOT_CONNECTED", "postfix.FEEDBACK_OPEN"} == kind_names(found)


@pytest.mark.parametrize("limit", [200_000, 0])
async def test_mail_that_is_too_large_for_nbstream(postfix: ExaminedPostfix, limit: int) -> None:
    postfix.set(f"message_size_limit={limit}")

    found = await postfix.findings("listeners: {smtp: {listen: '%s'}}\nlimits: {max_message_bytes: 100000}\n")

    assert "100000" in the(found, doctor.TOO_LARGE).what


async def test_what_postfix_does_without_its_milter_is_what_nbstream_would_do(postfix: ExaminedPostfix) -> None:
    postfix.set_service(postfix.outside, "content_filter=")
    postfix.set("smtpd_milters={ inet:localhost:11332, connect_timeout=5s }")
    milter = {"listeners": postfix.with_milter, "size_limit": 0}

    assert "tempfail" in the(postfix.compared(**milter), doctor.MILTER_FAILURE).what
    assert "postfix.MILTER_FAILURE" not in kind_names(postfix.compared(**milter, on_filter_failure="defer"))
    postfix.set("milter_default_action=accept")
    assert "postfix.MILTER_FAILURE" not in kind_names(postfix.compared(**milter))
    postfix.set("milter_default_action=tempfail")
    postfix.set("smtpd_milters={ inet:localhost:9, default_action=accept } { inet:localhost:11332 }")
    assert "tempfail" in the(postfix.compared(**milter), doctor.MILTER_FAILURE).what
    postfix.set("smtpd_milters=inet:localhost:9 { inet:localhost:11332, default_action=accept }")
    assert "postfix.MILTER_FAILURE" not in kind_names(postfix.compared(**milter))


async def test_a_milter_whose_socket_postfix_may_not_connect_to(
    postfix: ExaminedPostfix,
) -> None:
    with open_folder() as folder, socket.socket(socket.AF_UNIX) as listening:
        path = folder / "milter.sock"
        listening.bind(str(path))
        postfix.set(f"smtpd_milters=unix:{path}")
        text = f"listeners: {{milter: {{listen: 'unix:{path}'}}, smtp: null}}\n"

        path.chmod(0o660)
        assert str(path) in the(await postfix.findings(text), doctor.MILTER_UNREACHABLE).what
        path.chmod(0o666)
        assert "postfix.MILTER_UNREACHABLE" not in kind_names(await postfix.findings(text))
        folder.chmod(0o750)
        the(await postfix.findings(text), doctor.MILTER_UNREACHABLE)


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("verdict.reject", "verdict: {reject: 0.99}\n"),
        ("actions.spam", "actions: {spam: defer}\n"),
        ("recipients[0].actions.spam", "recipients: [{match: 'ann@*', actions: {spam: reject}}]\n"),
        ("recipients[0].verdict.reject", "recipients: [{match: 'ann@*', verdict: {reject: 0.99}}]\n"),
    ],
)
async def test_mail_that_postfix_has_accepted_is_not_refused(
    postfix: ExaminedPostfix, setting: str, text: str
) -> None:
    assert f"({setting})" in the(await postfix.findings(text), doctor.REFUSED_LATE).what


@pytest.mark.parametrize(
    "text",
    [
        "verdict: {reject: 0.99}\nactions: {reject: quarantine}\n",
        "verdict: {reject: 0.99}\nheaders: {mode: observe}\n",
    ],
)
async def test_what_would_be_refused_and_is_not(postfix: ExaminedPostfix, text: str) -> None:
    assert wrong(await postfix.findings(text)) == []


async def test_a_redirect_by_a_milter_needs_the_original_recipients(postfix: ExaminedPostfix) -> None:
    postfix.set_service(postfix.outside, "content_filter=")
    postfix.set("smtpd_milters=inet:localhost:11332", "milter_default_action=accept")
    text = (
        "listeners: {milter: {listen: '127.0.0.1:11332'}}\n"
        "recipients: [{match: 'a*', actions: {spam: 'redirect:a@b.c'}}]\n"
    )
    assert wrong(await postfix.findings(text)) == []

    postfix.set_service("cleanup/unix", "enable_original_recipient=no")
    assert "recipients[0].actions.spam" in the(await postfix.findings(text), doctor.REDIRECT_LOSES).what
    assert wrong(await postfix.findings(text.partition("\n")[0])) == []  # nothing is redirected


def third_filter(postfix: ExaminedPostfix) -> None:
    """Set another filter for all services, such as amavis in main.cf, but for that of users."""
    postfix.set("content_filter=smtp-amavis:[127.0.0.1]:10024")


async def test_another_filter_that_hands_mail_back_to_nbstream_is_a_loop(postfix: ExaminedPostfix) -> None:
    third_filter(postfix)
    assert wrong(await postfix.findings()) == []  # the way back has -o content_filter=
    postfix.set_service(postfix.back, "content_filter=smtp-amavis:[127.0.0.1]:10024")

    finding = the(await postfix.findings(), doctor.THIRD_FILTER_LOOP)

    assert postfix.back in finding.what
    assert postfix.outside in finding.what
    postfix.set_service(postfix.back, "content_filter=relay:[192.0.2.25]:25")
    assert wrong(await postfix.findings()) == []  # another machine, which may deliver the mail


async def test_another_filter_behind_nbstream_is_no_loop_where_its_mail_comes_back_elsewhere(
    postfix: ExaminedPostfix,
) -> None:
    postfix.set_service(postfix.back, "content_filter=smtp-amavis:[127.0.0.1]:10024")

    assert wrong(await postfix.findings()) == []  # the service of users leads nowhere


async def test_a_milter_is_not_asked_again_about_mail_from_another_filter(postfix: ExaminedPostfix) -> None:
    milter = {
        "listeners": postfix.with_milter,
        "size_limit": 0,
        "on_filter_failure": "defer",
    }
    postfix.set("smtpd_milters=inet:localhost:11332")
    postfix.set_service(postfix.outside, "content_filter=smtp-amavis:[127.0.0.1]:10024")

    finding = the(postfix.compared(**milter), doctor.JUDGED_TWICE)

    assert postfix.outside in finding.what
    postfix.set_service(postfix.users, "receive_override_options=no_milters")
    assert wrong(postfix.compared(**milter)) == []


async def test_a_configuration_that_cannot_be_read_is_noted(tmp_path: Path) -> None:
    if shutil.which("postconf", path="/usr/sbin:/usr/bin") is None:
        pytest.skip("postconf is missing")
    site = make_site(tmp_path, mail_servers=MailServerFiles(postfix=tmp_path / "none"))

    the(await examine_postfix(site), doctor.NOT_FOUND)


BROKEN: dict[str, tuple[Callable[[ExaminedPostfix], None], str, FindingKind]] = {
    "the port of the filter": (
        lambda p: p.set_service(p.outside, "content_filter=nbstream:[127.0.0.1]:10999"),
        "",
        doctor.ELSEWHERE,
    ),
    "the port of a filter with another name": (
        lambda p: p.set_service(p.outside, "content_filter=smtp:[127.0.0.1]:10999"),
        "",
        doctor.ELSEWHERE,
    ),
    "the port of the listener": (
        lambda p: None,
        "listeners: {smtp: {listen: '127.0.0.1:10999'}}\n",
        doctor.ELSEWHERE,
    ),
    "a proxy instead of a filter, at another port": (
        lambda p: p.set_service(p.outside, "content_filter=", "smtpd_proxy_filter=127.0.0.1:10999"),
        "",
        doctor.ELSEWHERE,
    ),
    "everybody in mynetworks": (lambda p: p.set("mynetworks=0.0.0.0/0"), "", doctor.EVERYBODY_TRUSTED),
    "everybody of IPv6 in mynetworks": (lambda p: p.set("mynetworks=[::]/0"), "", doctor.EVERYBODY_TRUSTED),
    "half of the world in mynetworks": (
        lambda p: p.set("mynetworks=127.0.0.0/8 128.0.0.0/1"),
        "",
        doctor.EVERYBODY_TRUSTED,
    ),
    "everybody in mynetworks of the service": (
        lambda p: p.set_service(p.outside, "mynetworks=0.0.0.0/0"),
        "",
        doctor.EVERYBODY_TRUSTED,
    ),
    "folded lines": (
        lambda p: p.set_service("nbstream/unix", "smtp_line_length_limit=998"),
        "",
        doctor.FOLDED,
    ),
    "no guard of the feedback addresses": (
        lambda p: p.set("smtpd_relay_restrictions=permit_mynetworks"),
        "",
        doctor.FEEDBACK_OPEN,
    ),
    "a loop": (
        lambda p: p.set_service(p.back, f"content_filter=nbstream:[127.0.0.1]:{p.filter_port}"),
        "",
        doctor.LOOP,
    ),
    "a size beyond that of nbstream": (lambda p: p.set("message_size_limit=0"), "", doctor.TOO_LARGE),
    "a refusal behind the queue": (lambda p: None, "verdict: {reject: 0.999}\n", doctor.REFUSED_LATE),
}


@pytest.mark.parametrize("what", BROKEN)
async def test_what_is_broken_is_named(postfix: ExaminedPostfix, what: str) -> None:
    break_it, settings, kind = BROKEN[what]
    break_it(postfix)

    found = await postfix.findings(settings)

    assert [finding for finding in wrong(found) if is_of(finding, kind)], found


async def test_a_wrong_port_is_named_beside_the_right_one(postfix: ExaminedPostfix) -> None:
    postfix.set_service(postfix.outside, "content_filter=nbstream:[127.0.0.1]:10999")

    finding = the(await postfix.findings(), doctor.ELSEWHERE)

    assert "10999" in finding.what
    assert str(postfix.filter_port) in finding.what


async def test_networks_of_ones_own_are_fine(postfix: ExaminedPostfix) -> None:
    postfix.set("mynetworks=127.0.0.0/8 10.0.0.0/8 192.168.0.0/16 [::1]/128 [fd00::]/16")

    assert wrong(await postfix.findings()) == []
