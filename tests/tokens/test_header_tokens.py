import pytest

from nbstream.mail.added_fields import is_added_on_arrival
from nbstream.mail.header_fields import parse_fields
from nbstream.tokens.header_tokens import header_tokens


def tokens_of(*lines: str) -> set[str]:
    block = "\r\n".join(lines).encode()
    return {token.decode() for token in header_tokens(parse_fields(block, len(block)))}


@pytest.mark.parametrize(
    "name",
    [
        "x-spam-status", "x-old-spam-status", "x-bogosity", "x-virus-scanned", "x-barracuda-score", "x-uuid",
        "x-rspamd-queue-id", "x-nbstream-verdict", "x-miltered", "x-dspam-result", "x-crm114-status",
        "x-amavis-alert", "x-quarantine-id", "x-ms-exchange-organization-scl", "x-forefront-antispam-report",
        "x-microsoft-antispam", "x-sa-exim-scanned", "x-proofpoint-spam-details", "x-mailscanner", "status",
        "x-status", "x-keywords", "x-mozilla-status2", "delivered-to", "x-original-to", "x-envelope-from",
        "authentication-results", "received-spf",
    ],
)  # fmt: skip  # one name a line would fill the page
def test_what_a_filter_or_mailbox_wrote_is_never_read(name: str) -> None:
    assert is_added_on_arrival(name)
    assert not any(name in token for token in tokens_of("From: a@b.example", f"{name}: verdict"))


@pytest.mark.parametrize(
    "name", ["from", "subject", "received", "x-mailer", "list-id", "x-priority", "return-path"]
)
def test_what_the_sender_wrote_is_read(name: str) -> None:
    assert not is_added_on_arrival(name)


def test_an_address_gives_itself_its_domains_and_its_name() -> None:
    tokens = tokens_of('From: "Ann Example" <ann@mail.x.example>')
    assert {"from:ann@mail.x.example", "from:mail.x.example", "from:x.example", "from.name:ann"} <= tokens


def test_names_as_written_order_and_absence_are_tokens() -> None:
    tokens = tokens_of("Message-Id: <1@x>", "From: a@x.example", "Subject: s")
    assert {"field:Message-Id", "order:message-id>from", "order:from>subject", "absent:date"} <= tokens
    assert "absent:subject" not in tokens


def test_received_fields_give_hosts_and_address_prefixes() -> None:
    tokens = tokens_of("Received: from a.x.example ([192.0.2.9]) by y.example with SMTP; Sun, 1 Jan 2023")
    assert {"received:x.example", "received:192.0.2", "received:y.example", "received:1"} <= tokens


def test_a_reply_without_reference_has_a_token_of_its_own() -> None:
    assert "reply:False" in tokens_of("Subject: Re: hello")
    assert "reply:True" in tokens_of("Subject: Re: hello", "In-Reply-To: <1@x>")


def test_senders_that_disagree_are_a_token() -> None:
    tokens = tokens_of("From: a@x.example", "Reply-To: b@y.example")
    assert "same-domain:reply-to:False" in tokens


@pytest.mark.parametrize("number", [10, 60, 99])
def test_the_layout_gives_tokens_however_many_fields_there_are(number: int) -> None:
    tokens = tokens_of(*(f"X-{n}: y" for n in range(number)))

    assert {"absent:from", f"field:X-{number - 1}", f"order:x-{number - 2}>x-{number - 1}"} <= tokens


def test_every_form_of_the_zone_is_a_token() -> None:
    zones = [
        ("10:00:00 +0200", "+0200"),
        ("10:00 GMT", "GMT"),
        ("10:00 -0700 (PDT)", "-0700 (PDT)"),
        ("10:00", "none"),
    ]
    for time, zone in zones:
        assert f"date:{zone.replace(' ', '_')}" in tokens_of(f"Date: Mon, 1 Jan 2024 {time}")


@pytest.mark.parametrize("name", ["body", "raw", "autolearn", "url.host"])
def test_a_field_never_makes_a_token_with_the_prefix_of_another_group(name: str) -> None:
    tokens = tokens_of(f"{name}: limit")
    assert f"field-{name}:limit" in tokens
    assert f"{name}:limit" not in tokens
