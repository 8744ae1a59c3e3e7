"""What is done to the header of checked mail."""

from __future__ import annotations

import pytest

from nbstream.bayes.clues import Clue
from nbstream.bayes.kinds import KindScores
from nbstream.policy.header import HeaderPolicy
from nbstream.policy.settings import (
    MAX_TEMPLATE_CHARACTERS,
    PLACEHOLDERS,
    HeaderFieldSettings,
    HeadersSettings,
    read_field_value,
)
from nbstream.policy.verdict import Verdict
from tests.policy.checked_mail import checked

DEFAULT = HeaderPolicy("default")
OWN_VALUE = 'because";\r\n\tmodel=default; id=abc'
SPAM = checked("abc", Verdict.SPAM, 0.99)
SITE = HeaderPolicy(
    "default",
    HeadersSettings(
        clues=False,
        own_field="X-Site",
        fields=(
            HeaderFieldSettings(name="X-Spam", value="Yes", verdicts=("spam", "reject")),
            HeaderFieldSettings(name="X-Spam", value="No", verdicts=("ham",)),
            HeaderFieldSettings(name="X-All", value=" ".join(f"{{{name}}}" for name in PLACEHOLDERS)),
        ),
        subject_tag="[SPAM]",
    ),
)


def added(policy: HeaderPolicy, verdict: Verdict, probability: float = 0.3) -> dict[str, str]:
    fields = policy.edits(checked("abc", verdict, probability)).added
    assert len(dict(fields)) == len(fields)
    return dict(fields)


def test_by_default_spam_is_flagged_as_spamassassin_does() -> None:
    assert added(DEFAULT, Verdict.SPAM, 0.99) == {
        "X-Spam-Flag": "YES",
        "X-Spam-Status": "Yes, score=4.6 required=4.6",
        "X-Spam-Level": "****",
        "X-Nbstream": f'spam; probability=0.990000; reason="{OWN_VALUE}',
    }


@pytest.mark.parametrize("policy", [DEFAULT, SITE])
@pytest.mark.parametrize("verdict", Verdict)
def test_every_field_that_is_written_is_also_removed_from_outside(policy: HeaderPolicy, verdict: Verdict) -> None:
    edits = policy.edits(checked("abc", verdict, 0.5, [Clue(b"x", 1.0)]), redirected_from="ann@example.org")

    assert {name for name, _ in edits.added} <= set(policy.marks.names) <= set(edits.removed_names)


def test_the_subject_of_spam_is_tagged() -> None:
    spam, ham = SITE.edits(SPAM), SITE.edits(checked("abc", Verdict.HAM, 0.1))

    assert (spam.subject_tag, ham.subject_tag) == ("[SPAM]", "")


def test_a_trial_writes_its_own_field_alone_and_changes_nothing_else() -> None:
    headers = HeadersSettings(fields=SITE.headers.fields, subject_tag="[SPAM]", mode="observe")
    trial = HeaderPolicy("default", headers)

    edits = trial.edits(checked("abc", Verdict.SPAM, 0.99, [Clue(b"x", 1.0)]), redirected_from="ann@example.org")

    assert [name for name, _ in edits.added] == ["X-Nbstream"]
    assert all(name.startswith("X-Nbstream") for name in edits.removed_names)
    assert edits.subject_tag == ""
    assert trial.marks.subject_tag == "[SPAM]"  # the filter beside may write it


def test_a_message_that_fails_its_check_loses_forged_fields_alone() -> None:
    edits = SITE.removal_edits

    assert (edits.added, edits.subject_tag) == ((), "")
    assert edits.removed_names == SITE.marks.names


def test_a_redirected_message_names_its_recipient_where_a_field_can_hold_it() -> None:
    assert (
        dict(DEFAULT.edits(SPAM, redirected_from="ann@example.org").added)["X-Nbstream-Recipient"]
        == "ann@example.org"
    )
    for address in ("ä@example.org", "a\n@example.org", "a" * 1000, ""):
        assert "X-Nbstream-Recipient" not in dict(DEFAULT.edits(SPAM, redirected_from=address).added)


@pytest.mark.parametrize("value", ["", "YES", "{verdict}, {score}", "a {{b}}"])
def test_values_that_a_field_may_have(value: str) -> None:
    assert read_field_value(value) == value


@pytest.mark.parametrize(
    "value",
    [
        *("{subject}", "{}", "{0}", "{score:.9}", "{id!r}", "{id.x}", "{", "}", "a\r\nb", "a\n", "ä", "\t"),
        "x" * (MAX_TEMPLATE_CHARACTERS + 1),
    ],
)
def test_values_that_a_field_may_not_have(value: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        read_field_value(value)


# The kind

NEWSLETTER = KindScores({"newsletter": 0.75, "ham": 0.25})


def test_the_kind_has_a_field_where_one_is_known() -> None:
    known, learning = (checked("abc", Verdict.HAM, 0.1, kind=kind) for kind in (NEWSLETTER, KindScores()))

    assert dict(DEFAULT.edits(known).added)["X-Nbstream-Kind"] == "newsletter; probability=0.750000"
    assert "X-Nbstream-Kind" not in dict(DEFAULT.edits(learning).added)
