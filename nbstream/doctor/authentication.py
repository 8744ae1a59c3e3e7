"""Results of SPF, DKIM and DMARC: whether those of our own servers can be clues, and the settings for it.

Rules: settings are proposed only where forged results provably do not reach nbstream. Where a field stands proves
nothing: a milter that has no result for a message writes no field, and then a field of the sender stands directly
below Postfix's own Received field, or on top of all that the next milter sees. What proves it is that Postfix
removes forged fields from all mail that comes in: its own postmap(1) answers for its own header_checks. Then no
name is dangerous, and the one that our servers use is looked up: milters write myhostname, which Postfix tells
them, unless their own configuration names another one.
"""

from __future__ import annotations

import re
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.doctor.examination import in_thread
from nbstream.doctor.postfix import postfix_command, read_mail_flow, run_program
from nbstream.doctor.postfix_configuration import split_words
from nbstream.findings import note, ok, warning
from nbstream.settings.values import read_authserv_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from nbstream.doctor.examination import Site
    from nbstream.doctor.postfix import MailFlow
    from nbstream.doctor.postfix_configuration import PostfixService
    from nbstream.findings import Finding

PROPOSED = note(
    "postfix.authentication",
    "Results of SPF, DKIM and DMARC can be clues: other milters ({milters}) see mail before nbstream, and Postfix "
    "removes the fields that a sender has forged.",
    "Write these lines into the configuration, in place of such lines, and restart the daemon:\n"
    "trusted_authserv_ids: [{ids}]\nown_received_fields: {received_fields}",
)
NOT_REMOVED = note(
    "postfix.authentication",
    "Results of SPF, DKIM and DMARC could be clues: other milters ({milters}) see mail before nbstream. But "
    "Postfix is not seen to remove the fields that a sender has forged.",
    "Let header_checks remove them, as docs/guides/postfix.md shows; nbstream doctor then has the settings.",
)
FORGEABLE = warning(
    "postfix.authentication",
    "trusted_authserv_ids is set, and Postfix is not seen to remove the fields that a sender has forged: he may "
    "write results in your name, where the milters do not remove them all.",
    "Let header_checks remove them, as docs/guides/postfix.md shows, or empty trusted_authserv_ids.",
)
OTHER_AUTHSERV_ID = warning(
    "postfix.authentication",
    "None of trusted_authserv_ids ({ids}) is a name of this Postfix or its milters ({names}): results of SPF, "
    "DKIM and DMARC may not be read.",
    "Write the name that comes first in the Authentication-Results of mail that you receive.",
)
READ = ok("postfix.authentication", "Results of SPF, DKIM and DMARC are read, and forged ones are removed.")

FORGED_FIELDS = (
    "Authentication-Results: {name}; dkim=pass header.d=bank.example",
    "authentication-results:{name} 1; spf=pass smtp.mailfrom=bank.example",
    'AUTHENTICATION-RESULTS \t: "{escaped}"; dmarc=pass header.from=bank.example',
    "Authentication-Results:\n\t(a (b) c){name}(d); arc=pass",
)
"""What senders forge, each as Postfix compares it with its tables: a field with all its lines.

``escaped`` is the name with a backslash before each character, which changes nothing in a quoted string (RFC 5322,
section 3.2.4), and in capital letters.
"""

_NOTHING = re.compile("exit code 1$|postmap: warning:")  # how postmap ends that finds nothing
_UNREADABLE = "unreadable"  # a table that we cannot read may let a field through before the next one sees it
_REMOVING = re.compile(r"(?:IGNORE|STRIP|REJECT|DISCARD)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ResultsSide:
    """What is known of the results that other milters write.

    ``milters`` are those that see mail before nbstream, ``names`` the names that they write, in lower case;
    ``domain`` is Postfix's mydomain. ``are_forged_removed`` is whether Postfix removes forged fields from all mail
    that it leads to nbstream.
    """

    milters: tuple[str, ...]
    names: tuple[str, ...]
    domain: str
    are_forged_removed: bool


async def examine_authentication(site: Site) -> Sequence[Finding]:
    """Read the configuration of Postfix and of its milters, and compare it with the settings."""
    try:
        flow = await read_mail_flow(site)
    except OSError:
        return []  # the check of Postfix says why
    services = flow.connected
    host = flow.postfix.value("myhostname")
    names = await in_thread(lambda: tuple(_names(host, site.mail_servers.milters)))
    checks = sorted({_header_checks(flow, service) for service in services})
    forgeable = dict.fromkeys((*flow.ours.authserv_ids, *names))
    is_removed = all([await _removes_forged(site, tables, forgeable) for tables in checks])
    milters = tuple(dict.fromkeys(milter for service in services for milter in flow.other_milters(service)))
    return list(compare_results(flow, ResultsSide(milters, names, flow.postfix.value("mydomain"), is_removed)))


def compare_results(flow: MailFlow, side: ResultsSide) -> Iterator[Finding]:
    """Yield what is to be said of results beside this nbstream. Pure."""
    ids, usual = set(flow.ours.authserv_ids), {*side.names, side.domain.lower()} - {""}
    # A milter sees mail without Postfix's own Received field.
    received_fields = 0 if set(flow.connected) <= set(flow.asking) else 1
    if ids and flow.connected and usual and not ids & usual:
        yield OTHER_AUTHSERV_ID(ids=", ".join(flow.ours.authserv_ids), names=", ".join(sorted(usual)))
    elif any(map(flow.other_filter, flow.entrances)):
        return  # how many Received fields are above our own results, and what was removed where, is not known
    elif ids and (flow.asking or flow.ours.own_received_fields) and not side.are_forged_removed:
        yield FORGEABLE()
    elif not side.milters or not side.names:
        return
    elif not side.are_forged_removed:
        yield NOT_REMOVED(milters=", ".join(side.milters))
    elif ids & set(side.names) and flow.ours.own_received_fields == received_fields:
        yield READ()
    else:
        proposed = ", ".join(dict.fromkeys((*flow.ours.authserv_ids, *side.names)))
        yield PROPOSED(milters=", ".join(side.milters), ids=proposed, received_fields=received_fields)


def _header_checks(flow: MailFlow, service: PostfixService) -> str:
    """Return the value of header_checks for mail of a service; an empty one where a field may get past it.

    A lone carriage return hides a field from the tables, where Postfix does not replace it.
    """
    cleanup = flow.cleanup(service)
    overrides = flow.postfix.words("receive_override_options", service)
    keeps_stray = flow.postfix.value("cleanup_replace_stray_cr_lf", cleanup) != "yes"
    if keeps_stray or "no_header_body_checks" in overrides or flow.proxies(service):
        return ""
    return flow.postfix.value("header_checks", cleanup)


async def _removes_forged(site: Site, tables: str, names: Iterable[str]) -> bool:
    """Return whether the tables, a value of header_checks, remove forged fields with each of the names."""
    for field in (forged_field(field, name) for name in names for field in FORGED_FIELDS):
        answers = [await _answer(site, field, table) for table in split_words(tables)]
        if not _REMOVING.match(next(filter(None, answers), "")):
            return False
    return True


def forged_field(form: str, name: str) -> str:
    """Return one of ``FORGED_FIELDS`` with the name of a server."""
    return form.format(name=name, escaped="".join(f"\\{character}" for character in name.upper()))


async def _answer(site: Site, field: str, table: str) -> str:
    """Return what a table says of a field: nothing, an action, or ``_UNREADABLE``."""
    try:
        return await run_program([*postfix_command(site, "postmap"), "-q", field, table])
    except OSError as error:
        return "" if _NOTHING.match(str(error)) else _UNREADABLE


def _names(host: str, files: Sequence[Path]) -> Iterator[str]:
    """Yield the names that milters may write: ``host``, which Postfix tells them, and those of their files."""
    configured = [_configured_name(file) for file in files if file.exists()]
    for name in dict.fromkeys([host, *filter(None, configured)]):
        with suppress(ValueError):  # no setting can name such a server
            yield read_authserv_id(name)


def _configured_name(file: Path) -> str:
    """Return the AuthservID in a configuration of OpenDKIM or OpenDMARC; empty without one. Raises ``OSError``."""
    found = re.findall(r"(?im)^AuthservID[ \t]+(\S+)", file.read_text("utf-8", "replace"))
    return socket.gethostname() if found[-1:] == ["HOSTNAME"] else found[-1] if found else ""
