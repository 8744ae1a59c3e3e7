"""The header of delivered mail as a site wants it, and trials in which nothing else happens."""

from __future__ import annotations

import logging
import pathlib

import pytest
from redis.asyncio import Redis

from nbstream.mail.header_fields import body_offset, parse_fields
from nbstream.mail.lines import normalize_line_ends
from nbstream.policy.header import HeaderPolicy
from nbstream.policy.settings import HeaderFieldSettings, HeadersSettings
from tests.harness.smtp_listener import SPAM
from tests.listeners.smtp.test_actions import HAMMY, SPAMMY, quarantined, rule, send, taught

SITE = HeaderPolicy(
    "test",
    HeadersSettings(
        clues=False,
        own_field="X-Site",
        fields=(HeaderFieldSettings(name="X-Verdict", value="{verdict}"),),
        subject_tag="[SPAM]",
    ),
)
TRIAL = HeaderPolicy("test", HeadersSettings(subject_tag="[SPAM]", mode="observe"))
OTHERS = b"X-Spam-Flag: NO\r\nX-Spam-Status: No, score=1\r\nX-Other: a\r\n"
WRITTEN = ("X-Verdict", "X-Site")
KEPT = ("X-Spam-Flag", "X-Spam-Status", "X-Other")
FORGED = b"X-Site: ham\r\nX-Verdict: ham\r\n"


def names_and_subject(raw: bytes) -> tuple[list[str], str]:
    content = normalize_line_ends(raw)
    fields = parse_fields(content, body_offset(content))
    return (
        [
            field.name_as_written
            for field in fields
            if field.name.startswith("x-") and "envelope" not in field.name
        ],
        next(field.text for field in fields if field.name == "subject"),
    )


async def test_a_site_has_its_fields_and_spam_a_tag_and_the_message_stays_the_same(
    client: Redis, tmp_path: pathlib.Path
) -> None:
    async with taught(client, tmp_path, headers=SITE, rules=[rule(0, "*", "pass")]) as smtp:
        for content in (SPAMMY, HAMMY):
            assert (await smtp.send(FORGED + OTHERS + content)).startswith("250")
        spam, ham = smtp.delivered()

        assert names_and_subject(spam) == ([*WRITTEN, *KEPT], "[SPAM] prize")
        assert names_and_subject(ham)[0] == [*WRITTEN, *KEPT]
        assert names_and_subject(ham)[1] == "lunch"
        # Tagged and marked, it comes in again and is taught again: it is the message that is known already.
        assert "already" in await smtp.send(spam, SPAM)
        assert (await smtp.send(spam)).startswith("250")
        assert names_and_subject(smtp.delivered()[-1]) == names_and_subject(spam)


@pytest.mark.parametrize("action", ["reject", "defer", "quarantine", "redirect:abuse@example.org"])
async def test_in_a_trial_everything_passes_and_only_our_own_field_is_written(
    action: str, client: Redis, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    tagged = (OTHERS + SPAMMY).replace(b"Subject: ", b"Subject: [SPAM] ")
    async with taught(client, tmp_path, headers=TRIAL, rules=[rule(0, "*", action)]) as smtp:
        for content in (OTHERS + SPAMMY, tagged):
            assert (await send(smtp, "a@x", "b@y", content=content)).startswith("250")

            raw = normalize_line_ends(smtp.delivered()[-1])
            assert raw.endswith(content)
            assert names_and_subject(raw)[0] == ["X-Nbstream", *KEPT]

        kind = action.partition(":")[0]
        assert smtp.metric("nbstream_observed_actions_total", action=kind) == 2
        assert smtp.metric("nbstream_actions_total", action="pass") == 2
        assert smtp.metric("nbstream_actions_total", action=kind) == 0
        assert quarantined(smtp) == []
        lines = [vars(record)["fields"] for record in caplog.records if record.message == "message"]
        assert [(line["action"], line["observed"]) for line in lines] == [("pass", kind)] * 2
