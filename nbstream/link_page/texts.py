"""The texts of the pages behind links, by language; both languages have the same names."""

from __future__ import annotations

from collections.abc import Mapping

TEXTS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "title_release": "Deliver a held message",
        "title_ham": "This is not spam",
        "title_digest": "The mail about held messages",
        "title": "This cannot be shown",
        "from": "From",
        "subject": "Subject",
        "came": "Came",
        "for": "For",
        "ask_release": "The mail filter holds this message back. It is delivered to you, and the filter learns "
        "that it is not spam.",
        "ask_ham": "The filter learns that this message is not spam. It is not delivered, and waits on.",
        "ask_digest_on": "You get a mail about what is held back for you.",
        "ask_digest_off": "You get no mail about what is held back for you.",
        "do_release": "Deliver it to me",
        "do_ham": "This is not spam",
        "do_digest_on": "Do not send it any more",
        "do_digest_off": "Send it again",
        "done_release": "The message was delivered to you.",
        "done_ham": "The filter has learned that this message is not spam. It waits on.",
        "gone": "This message is not held back for you any more: it was delivered or removed already.",
        "in_doubt": "This message may have been delivered to you already. Look for it first.",
        "again": "Deliver it once more",
        "refused": "The mail server refuses this message. Ask your administrator.",
        "later": "This cannot be done now. Nothing was changed. Please try again later.",
        "invalid": "This link is not valid, or not any more. Nothing was changed.",
        "failed": "This failed. The log of the server says why.",
    },
    "de": {
        "title_release": "Eine zurückgehaltene Nachricht zustellen",
        "title_ham": "Das ist kein Spam",
        "title_digest": "Die Mail über zurückgehaltene Nachrichten",
        "title": "Das kann nicht gezeigt werden",
        "from": "Von",
        "subject": "Betreff",
        "came": "Vom",
        "for": "An",
        "ask_release": "Der Mailfilter hält diese Nachricht zurück. Sie wird Ihnen zugestellt, und der Filter "
        "lernt, dass sie kein Spam ist.",
        "ask_ham": "Der Filter lernt, dass diese Nachricht kein Spam ist. Sie wird nicht zugestellt und wartet "
        "weiter.",
        "ask_digest_on": "Sie bekommen eine Mail über das, was für Sie zurückgehalten wird.",
        "ask_digest_off": "Sie bekommen keine Mail über das, was für Sie zurückgehalten wird.",
        "do_release": "Mir zustellen",
        "do_ham": "Das ist kein Spam",
        "do_digest_on": "Nicht mehr schicken",
        "do_digest_off": "Wieder schicken",
        "done_release": "Die Nachricht wurde Ihnen zugestellt.",
        "done_ham": "Der Filter hat gelernt, dass diese Nachricht kein Spam ist. Sie wartet weiter.",
        "gone": "Diese Nachricht wird nicht mehr für Sie zurückgehalten: Sie wurde schon zugestellt oder "
        "gelöscht.",
        "in_doubt": "Diese Nachricht wurde Ihnen vielleicht schon zugestellt. Sehen Sie erst nach.",
        "again": "Noch einmal zustellen",
        "refused": "Der Mailserver nimmt diese Nachricht nicht an. Fragen Sie Ihren Administrator.",
        "later": "Das geht im Moment nicht. Nichts wurde geändert. Bitte versuchen Sie es später noch einmal.",
        "invalid": "Dieser Link gilt nicht, oder nicht mehr. Nichts wurde geändert.",
        "failed": "Das ist fehlgeschlagen. Das Log des Servers sagt, warum.",
    },
}
