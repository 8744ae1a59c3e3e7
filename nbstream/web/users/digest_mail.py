"""The digest as a mail: the templates, which have its texts, and what they may use.

Rules: what others wrote is one line of visible characters, cut, and escaped in HTML; mail programs make no link of
it that looks like one of ours. Nothing in the mail is fetched from elsewhere. It says of itself that a program
wrote it (RFC 3834), and its envelope has no sender.
"""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from email.utils import formatdate, make_msgid
from typing import TYPE_CHECKING

from jinja2 import (
    Environment,
    PackageLoader,
    StrictUndefined,
    select_autoescape,
)

from nbstream.errors import InputError
from nbstream.mail.visible_text import is_blank, visible_text
from nbstream.policy.settings import read_mail_address
from nbstream.web.users.links import LinkPurpose, LinkSigner, SignedLink

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nbstream.web.quarantine import ListedMail
    from nbstream.web.users.settings import DigestSettings

LINK_DAYS = 30
"""For how many days the links of a digest are good, at most."""

LOGIN_DAYS = 7
"""For how many days the link to the user's page is good: it shows more than the digest, and later mail too."""

_DAY_SECONDS = 86_400
_SHOWN_LENGTH = 100  # characters of what others wrote
_SUBJECT, _TEXT, _HTML = "subject.txt", "digest.txt", "digest.html"
_MAX_LINE = 990  # a link must not be folded
_NOTHING = "\N{EN DASH}"
_ADDRESS = r"(?<![^\s<(])[\w.+=-]++@[\w.-]++(?![^\s>),;])"  # at most a new mail becomes of it
# By this mail programs know a link in a text, which may be a domain or the address of a host alone.
_LINK_MARK = re.compile(rf"({_ADDRESS})|:(?=//)|(?<=[^\s.])[.\u3002\uff0e\uff61](?=[^\W\d_]{{2}}|\d+\.\d)")


@dataclass(frozen=True, slots=True)
class Digest:
    """What the digest says about a user's quarantined mail.

    ``messages`` are listed, each with a note; ``more`` new ones are not, and ``older`` ones were told of before.
    """

    address: str
    messages: Sequence[ListedMail]
    more: int = 0
    older: int = 0

    @property
    def total(self) -> int:
        """How many messages are new."""
        return len(self.messages) + self.more


@dataclass(frozen=True, slots=True)
class DigestTexts:
    """The rendered templates."""

    subject: str
    text: str
    html: str


class DigestRenderer:
    """Renders digests.

    ``kept_days`` is after how many days quarantined mail is removed, None for never. ``may_log_in`` tells whether
    the user with an address, normalized, has a page.
    """

    def __init__(
        self,
        section: DigestSettings,
        kept_days: int | None,
        may_log_in: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._section = section
        self._kept_days = kept_days
        self._may_log_in = may_log_in
        self._environment = _environment(section.language)

    def mail(self, digest: Digest, signer: LinkSigner, now: float) -> bytes:
        """Return the message, with CRLF line ends. Raises ``InputError`` for an address that no field can have."""
        texts = self.render(digest, signer, now)
        is_ascii = digest.address.isascii() and self._section.sender.isascii()
        policy = SMTP if is_ascii else SMTPUTF8
        mail = EmailMessage(policy)
        mail["From"] = _address(self._section.sender)
        mail["To"] = _address(digest.address)
        mail["Subject"] = texts.subject
        mail["Date"] = formatdate(now, localtime=True)
        mail["Message-ID"] = make_msgid(domain=self._section.sender.rpartition("@")[2])
        mail["Auto-Submitted"] = "auto-generated"
        mail["List-Unsubscribe"] = f"<{self._url(signer, LinkPurpose.DIGEST, digest.address, now)}>"
        mail.set_content(texts.text)
        mail.add_alternative(texts.html, subtype="html")
        mail["Content-Language"] = self._section.language
        return mail.as_bytes(policy=policy.clone(max_line_length=_MAX_LINE))

    def render(self, digest: Digest, signer: LinkSigner, now: float) -> DigestTexts:
        """Return the texts of the mail."""

        def url(purpose: str, message_id: str = "") -> str:
            return self._url(signer, LinkPurpose(purpose), digest.address, now, message_id)

        values = {
            "address": digest.address,
            "messages": digest.messages,
            "url": url,
            "total": digest.total,
            "more": digest.more,
            "older": digest.older,
            "kept_days": self._kept_days,
            "links_end_at": self._ends_at(LinkPurpose.RELEASE, now),
            "may_log_in": self._may_log_in(digest.address),
        }
        templates = (self._environment.get_template(name) for name in (_SUBJECT, _TEXT, _HTML))
        subject, text, html = (template.render(values) for template in templates)
        return DigestTexts(" ".join(subject.split()), text, html)

    def _url(
        self, signer: LinkSigner, purpose: LinkPurpose, address: str, now: float, message_id: str = ""
    ) -> str:
        link = SignedLink(purpose, address, int(self._ends_at(purpose, now)), message_id)
        return signer.url(self._section.base_url, link)

    def _ends_at(self, purpose: LinkPurpose, now: float) -> float:
        most = LOGIN_DAYS if purpose is LinkPurpose.LOGIN else LINK_DAYS
        return now + _DAY_SECONDS * min(most, self._kept_days or most)


def _environment(language: str) -> Environment:
    environment = Environment(
        loader=PackageLoader("nbstream.web.users", f"templates/digest/{language}"),
        autoescape=select_autoescape(enabled_extensions=("html",), default=False),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(foreign=_foreign, local_time=_local_time, percent=_percent, sureness=_sureness)
    return environment


def _foreign(text: str, length: int = _SHOWN_LENGTH) -> str:
    """Return what others wrote as one line that hides nothing, cut; a dash where nothing would be seen."""
    if is_blank(text[:length]):
        return _NOTHING
    line = " ".join(visible_text(text, length).split())
    shown = _LINK_MARK.sub(lambda match: match[1] or f"[{match[0]}]", line)
    return shown + ("…" if len(text) > length else "")


def _local_time(at: float, form: str) -> str:
    return time.strftime(form, time.localtime(at))


def _sureness(probability: float) -> str:
    if probability >= 0.99:
        return "certain"
    return "likely" if probability >= 0.9 else "unsure"


def _percent(probability: float) -> str:
    """Return a number that is never rounded up, and 99.9 at most."""
    tenths = min(999, math.floor(1000 * probability))
    return f"{tenths / 10:.1f}"


def _address(text: str) -> Address:
    try:
        text.encode()  # an address in an envelope may have bytes that are no characters
        if text.isascii():
            return Address(addr_spec=text)
        local, _, domain = read_mail_address(text).rpartition("@")  # which addr_spec cannot have
        return Address(username=local, domain=domain)
    except (ValueError, IndexError, MessageError) as error:
        raise InputError("the address cannot be written into a header field") from error
