"""Postfix: whether mail goes to nbstream once, comes back without a loop, and strangers cannot teach."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_network
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from nbstream.daemon.listeners import LISTENERS
from nbstream.doctor.examination import in_thread
from nbstream.doctor.postfix_configuration import (
    LOOPBACK,
    Endpoint,
    filter_endpoint,
    inline_values,
    listener_endpoint,
    parse_postfix,
    tcp_endpoint,
)
from nbstream.findings import note, ok, problem, warning
from nbstream.policy.actions import ActionKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nbstream.config import Settings
    from nbstream.config.policy import RecipientRuleSettings
    from nbstream.doctor.examination import Site
    from nbstream.doctor.postfix_configuration import PostfixConfiguration, PostfixService
    from nbstream.findings import Finding

NOT_FOUND = note("postfix", "Postfix was not examined: {why}.")
NOT_CONNECTED = note(
    "postfix.filter",
    "Neither a service nor a transport of Postfix leads mail to nbstream.",
    "See docs/guides/postfix.md, if mail should come from this Postfix.",
)
CONNECTED = ok("postfix.filter", "Mail of the service {service} goes to nbstream ({ways}).")
ELSEWHERE = problem(
    "postfix.filter",
    "The service {service} leads mail to {value}, and nbstream listens at {listening}: mail waits in the queue of "
    "Postfix.",
    "Give both the same address: {way} in master.cf or main.cf, or listeners.{listener}.listen.",
)
FOLDED = problem(
    "postfix.transport",
    "The transport {transport} folds lines of more than {limit} bytes on their way to nbstream: such mail is "
    "altered, and its DKIM signatures break.",
    "Give it -o {program}_line_length_limit=0 in master.cf, as deploy/postfix/master.cf has it.",
)
EVERYBODY_TRUSTED = problem(
    "postfix.networks",
    "The service {service} trusts the network {network} (mynetworks): strangers may teach, and send mail to "
    "anywhere.",
    "Name only networks of your own in mynetworks.",
)
OTHER_AUTHSERV_ID = warning(
    "postfix.authentication",
    "None of trusted_authserv_ids ({ids}) is a name of this Postfix ({names}): results of SPF, DKIM and DMARC may "
    "not be read.",
    "Write the name that comes first in the Authentication-Results of mail that you receive.",
)
TRANSPORT = ok("postfix.filter", "Mail of this Postfix goes to nbstream by {parameter}.")
TWO_WAYS = problem(
    "postfix.filter",
    "Mail of the service {service} goes to nbstream more than once ({ways}).",
    "Keep one of them: the others only cost time, and their header fields are removed again.",
)
LOOP = problem(
    "postfix.return",
    "The service {service}, to which nbstream hands mail back, leads it to nbstream again ({ways}).",
    "Give that service -o content_filter= -o smtpd_proxy_filter= and -o receive_override_options=no_milters.",
)
MILTERS_TWICE = warning(
    "postfix.return",
    "The service {service}, to which nbstream hands mail back, runs milters on it again.",
    "Give that service -o receive_override_options=no_milters, or they see each message twice.",
)
THIRD_FILTER_LOOP = problem(
    "postfix.return",
    "Mail goes round: the service {service}, to which nbstream hands mail back, leads it to another filter "
    "({filter}), and each service that this filter can hand it back to leads it to a filter again ({services}).",
    "Give {service} -o content_filter= -o smtpd_proxy_filter=, or the other filter a service with these to hand "
    "mail back to.",
)
JUDGED_TWICE = warning(
    "postfix.filter",
    "Postfix asks nbstream about mail of the service {service}, and again where another filter ({filter}) hands "
    "it back to {back}.",
    "Give {back} -o receive_override_options=no_milters.",
)
FEEDBACK_OPEN = problem(
    "postfix.feedback",
    "Strangers may write to {address} through the service {service}, and so teach.",
    "Put the check_recipient_access of deploy/postfix/main.cf in front of smtpd_relay_restrictions.",
)
FEEDBACK_GUARDED = ok("postfix.feedback", "Strangers may not write to the feedback addresses.")
TOO_LARGE = problem(
    "postfix.size",
    "The service {service} takes messages of up to {postfix}, and listeners.{listener} of up to {limit}.",
    "Lower message_size_limit or raise limits.max_message_bytes, or large mail is refused after it was accepted.",
)
SIZE = ok("postfix.size", "Postfix takes no larger messages than nbstream.")
MILTER_FAILURE = warning(
    "postfix.milter",
    "While nbstream is away, Postfix goes by milter_default_action = {action}; where a check fails, nbstream "
    "goes by on_filter_failure: {policy}. These are contrary.",
    "Set milter_default_action to {wanted}, or change on_filter_failure: defer goes with tempfail, "
    "pass with accept.",
)
REFUSED_LATE = problem(
    "postfix.refusal",
    "nbstream may refuse mail ({setting}) that Postfix has accepted, so that bounces go to forged senders.",
    "Leave verdict.reject at null and use neither reject nor defer behind the queue of Postfix.",
)

MILTER_UNREACHABLE = problem(
    "postfix.milter",
    "The user {user} of Postfix may not connect to the socket {socket}, so that all mail goes by "
    "milter_default_action.",
    "Give the folder of the socket the group of Postfix, as deploy/systemd/nbstream.tmpfiles does, and restart "
    "nbstream.",
)

REDIRECT_LOSES = problem(
    "postfix.milter",
    "Mail that is redirected ({setting}) can be lost: enable_original_recipient is no, so Postfix adds no "
    "recipient to whom an alias of the former one leads already.",
    "Set enable_original_recipient to yes, which is its default.",
)

_TRANSPORTS = ("virtual_transport", "mailbox_transport", "local_transport", "relay_transport", "default_transport")
_WAYS = ("content_filter", "smtpd_proxy_filter", "smtpd_milters")
_FAILURE_ACTIONS = {"pass": "accept", "defer": "tempfail"}
_LOCAL_DOMAINS = ("mydestination", "relay_domains", "virtual_mailbox_domains", "virtual_alias_domains")
_RESTRICTIONS = ("smtpd_relay_restrictions", "smtpd_recipient_restrictions")
_NO_RELAYING = {"reject_unauth_destination", "defer_unauth_destination"}
_OWN_PREFIX = {4: 8, 6: 16}  # a network with a shorter prefix is nobody's own
_SECONDS = 10.0
_SYSTEM_PATH = f"{os.defpath}:/usr/sbin:/usr/local/sbin:/sbin"


@dataclass(frozen=True, slots=True)
class FilterSide:
    """What matters to Postfix of the settings of nbstream.

    ``listeners`` are the endpoints by the names of the listeners, ``size_limits`` the bytes that each takes.
    ``next_hop`` is None for a Maildir. ``refusals`` and ``redirects`` are the settings by which mail may be
    refused and redirected.
    """

    listeners: Mapping[str, Endpoint]
    size_limits: Mapping[str, int]
    next_hop: Endpoint | None
    feedback_addresses: tuple[str, ...]
    on_filter_failure: str
    refusals: str
    redirects: str
    authserv_ids: tuple[str, ...] = ()

    def listener_at(self, endpoint: Endpoint | None, queue_directory: str) -> str | None:
        """Return the name of the listener there; a path may be seen from the chroot of Postfix."""
        for name, own in self.listeners.items():
            in_chroot = not own.port and endpoint is not None and not endpoint.port
            seen = Endpoint(f"{queue_directory}{endpoint.host_or_path}") if in_chroot and endpoint else endpoint
            if own in {endpoint, seen}:
                return name
        return None


async def examine_postfix(site: Site) -> Sequence[Finding]:
    """Read the configuration by ``postconf``, and compare it with that of nbstream."""
    program = shutil.which("postconf") or shutil.which("postconf", path=_SYSTEM_PATH)
    if program is None:
        return [NOT_FOUND(why="it is not installed here")]
    folder = site.mail_servers.postfix
    words = [program, *(["-c", str(folder)] if folder else [])]
    try:
        main, services, options = [await run_program([*words, option]) for option in ("-nx", "-M", "-P")]
    except OSError as error:
        return [NOT_FOUND(why=error)]
    postfix, ours = parse_postfix(main, services, options), filter_side(site.settings)
    return [*compare(postfix, ours), *await in_thread(lambda: list(_milter_sockets(postfix, ours)))]


def _milter_sockets(postfix: PostfixConfiguration, ours: FilterSide) -> Iterator[Finding]:
    """Yield the socket of the milter, where Postfix asks it and its user may not connect."""
    milter = ours.listeners.get("milter")
    ways = {service: _ways(postfix, service, ours) for service in postfix.smtp_servers}
    if milter is None or milter.port or not _milter_is_asked(ways):
        return
    name = postfix.value("mail_owner")
    with suppress(KeyError, OSError):  # a user or socket that is not there is said by other findings
        user = pwd.getpwnam(name)
        if not _may_connect(Path(milter.host_or_path), user.pw_uid, set(os.getgrouplist(name, user.pw_gid))):
            yield MILTER_UNREACHABLE(user=name, socket=milter.host_or_path)


def _may_connect(socket: Path, user: int, groups: set[int]) -> bool:
    """Whether the user may write to the socket and enter each folder above it. Raises ``OSError``."""
    wanted = [(socket.stat(), stat.S_IWOTH), *((folder.stat(), stat.S_IXOTH) for folder in socket.parents)]
    return all(_has_right(status, right, user, groups) for status, right in wanted)


def _has_right(status: os.stat_result, right: int, user: int, groups: set[int]) -> bool:
    """Whether the mode gives the right, stated as that of others, to the user."""
    if status.st_uid == user:
        return bool(status.st_mode & right << 6)
    return bool(status.st_mode & (right << 3 if status.st_gid in groups else right))


async def run_program(words: Sequence[str | Path]) -> str:
    """Return what a program prints. Raises ``OSError`` where it fails or takes too long."""
    process = await asyncio.create_subprocess_exec(
        *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(_SECONDS):
            output, errors = await process.communicate()
    except TimeoutError:
        raise OSError(f"{words[0]} took longer than {_SECONDS:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        lines = errors.decode("utf-8", "replace").strip().splitlines() or [f"exit code {process.returncode}"]
        raise OSError(lines[-1][:300].rstrip("."))
    return output.decode("utf-8", "replace")


def filter_side(settings: Settings) -> FilterSide:
    """Return what matters to Postfix of these settings."""
    endpoints, limits = {}, {}
    for listener in LISTENERS:
        address = listener.listen_address(settings)
        if address is not None:
            endpoints[listener.name] = listener_endpoint(address)
            limits[listener.name] = settings.limits.max_message_bytes
    taken = [] if settings.headers.mode == "observe" else list(_taken_actions(settings))
    return FilterSide(
        endpoints,
        limits,
        _next_hop(settings),
        (settings.feedback.spam_address, settings.feedback.ham_address),
        settings.on_filter_failure,
        ", ".join(name for name, kind in taken if not kind.takes_message),
        ", ".join(name for name, kind in taken if kind is ActionKind.REDIRECT),
        settings.trusted_authserv_ids,
    )


def _taken_actions(settings: Settings) -> Iterator[tuple[str, ActionKind]]:
    """Yield each action that may be taken, by its setting; of a recipient rule only what differs from the top."""
    at_top = list(_actions_of(settings))
    yield from at_top
    for number, rule in enumerate(settings.recipients):
        yield from (
            (f"recipients[{number}].{name}", kind)
            for name, kind in _actions_of(rule)
            if (name, kind) not in at_top
        )


def _actions_of(section: Settings | RecipientRuleSettings) -> Iterator[tuple[str, ActionKind]]:
    for verdict, action in section.actions:
        if verdict != "reject":
            yield f"actions.{verdict}", action.kind
        elif section.verdict.reject is not None:  # nothing else gives that verdict
            is_usual = action.kind is ActionKind.REJECT
            yield "verdict.reject" if is_usual else "actions.reject", action.kind


def _next_hop(settings: Settings) -> Endpoint | None:
    address = getattr(settings.relay.next_hop, "address", None)
    if address is None:
        return None
    return tcp_endpoint(address.host, address.port) if hasattr(address, "host") else Endpoint(str(address.path))


def compare(postfix: PostfixConfiguration, ours: FilterSide) -> Iterator[Finding]:
    """Yield what is to be said of a Postfix beside this nbstream. Pure."""
    ways = {service: _ways(postfix, service, ours) for service in postfix.smtp_servers}
    returns = {service for service in ways if ours.next_hop is not None and service.endpoint == ours.next_hop}
    leading = {service: found for service, found in ways.items() if found and service not in returns}
    transports = _transports(postfix, ours)
    elsewhere = list(_elsewhere(postfix, set(ways) - returns, ours, is_led=bool(leading or transports)))
    yield from elsewhere
    if not leading and not transports and not elsewhere:
        yield NOT_CONNECTED()
    for parameter in transports:
        yield TRANSPORT(parameter=parameter)
    for service, found in leading.items():
        kind = TWO_WAYS if len(found) > 1 else CONNECTED
        yield kind(service=service, ways=", ".join(found))
    for service in returns:
        yield from _return_service(postfix, service, ways, ours)
    yield from _judged_twice(postfix, leading, ours)
    yield from _feedback(postfix, ways, returns, ours)
    yield from _folding(postfix, ours)
    if leading or transports:
        yield from _open_networks(postfix, set(ways) - returns)
        yield from _authserv_ids(postfix, ours)
    # What a transport takes came in by any of the services.
    delivering = ways | dict.fromkeys(set(ways) - returns, transports) if transports else leading
    if delivering:
        yield from _sizes(postfix, delivering, ours)
        yield from _failures(postfix, leading, ours)
    is_accepted = transports or any("content_filter" in found for found in leading.values())
    if ours.refusals and is_accepted:
        yield REFUSED_LATE(setting=ours.refusals)
    if ours.redirects and _milter_is_asked(ways) and not _keeps_original_recipients(postfix):
        yield REDIRECT_LOSES(setting=ours.redirects)


def _ways(postfix: PostfixConfiguration, service: PostfixService, ours: FilterSide) -> dict[str, str]:
    """Return the listener to which each parameter of a service leads, by the name of the parameter."""
    queue, found = postfix.value("queue_directory"), {}
    for way in _WAYS:
        if way == "smtpd_milters" and not _runs_milters(postfix, service):
            continue
        values = postfix.words(way, service) if way == "smtpd_milters" else [postfix.value(way, service)]
        for value in values:
            listener = ours.listener_at(filter_endpoint(value, queue), queue)
            if listener is not None:
                found[way] = listener
    return found


def _transports(postfix: PostfixConfiguration, ours: FilterSide) -> dict[str, str]:
    """Return the listener to which each transport of main.cf leads, by the name of the parameter."""
    queue = postfix.value("queue_directory")
    found = {name: ours.listener_at(filter_endpoint(postfix.value(name), queue), queue) for name in _TRANSPORTS}
    return {name: listener for name, listener in found.items() if listener is not None}


def _elsewhere(
    postfix: PostfixConfiguration, services: set[PostfixService], ours: FilterSide, *, is_led: bool
) -> Iterator[Finding]:
    """Yield the services whose filter is meant to be nbstream, at an address where it does not listen.

    That is a transport with our name and, where no mail is led here at all, any filter of this machine before a
    Postfix that takes mail back from us.
    """
    smtp = ours.listeners.get("smtp")
    if smtp is None:
        return
    takes_back = ours.next_hop is not None and any(each.endpoint == ours.next_hop for each in postfix.smtp_servers)
    for service in sorted(services, key=str):
        for way in ("content_filter", "smtpd_proxy_filter"):
            value = postfix.value(way, service)
            endpoint = filter_endpoint(value, postfix.value("queue_directory"))
            if endpoint is None or ours.listener_at(endpoint, postfix.value("queue_directory")):
                continue
            is_local = endpoint.host_or_path == LOOPBACK or not endpoint.port
            if value.startswith("nbstream:") or (takes_back and not is_led and is_local):
                yield ELSEWHERE(service=service, value=value, listening=smtp, way=way, listener="smtp")


def _folding(postfix: PostfixConfiguration, ours: FilterSide) -> Iterator[Finding]:
    """Yield the transports to nbstream that would fold long lines; smtp(8) and lmtp(8) have a parameter each."""
    queue = postfix.value("queue_directory")
    values = [postfix.value("content_filter", service) for service in postfix.smtp_servers]
    values += [postfix.value(name) for name in _TRANSPORTS] + inline_values(postfix.value("transport_maps"))
    names = {value.partition(":")[0] for value in values if ours.listener_at(filter_endpoint(value, queue), queue)}
    for service in postfix.services:
        if service.name in names and service.type == "unix" and service.program in {"smtp", "lmtp"}:
            limit = postfix.value(f"{service.program}_line_length_limit", service)
            if limit != "0":
                yield FOLDED(transport=service.name, limit=limit, program=service.program)


def _open_networks(postfix: PostfixConfiguration, services: set[PostfixService]) -> Iterator[Finding]:
    """Yield the services whose mynetworks has a network that is no network of anybody's own."""
    for service in sorted(services, key=str):
        for word in postfix.words("mynetworks", service):
            with suppress(ValueError):  # a table, or an exclusion
                network = ip_network(word.replace("[", "").replace("]", ""), strict=False)
                if network.prefixlen < _OWN_PREFIX[network.version]:
                    yield EVERYBODY_TRUSTED(service=service, network=word)


def _authserv_ids(postfix: PostfixConfiguration, ours: FilterSide) -> Iterator[Finding]:
    names = {postfix.value("myhostname").lower(), postfix.value("mydomain").lower()} - {""}
    if ours.authserv_ids and names and not names & set(ours.authserv_ids):
        yield OTHER_AUTHSERV_ID(ids=", ".join(ours.authserv_ids), names=", ".join(sorted(names)))


def _runs_milters(postfix: PostfixConfiguration, service: PostfixService) -> bool:
    has_milters = bool(postfix.words("smtpd_milters", service))
    return has_milters and "no_milters" not in postfix.words("receive_override_options", service)


def _milter_is_asked(ways: Mapping[PostfixService, Mapping[str, str]]) -> bool:
    return any("smtpd_milters" in found for found in ways.values())


def _keeps_original_recipients(postfix: PostfixConfiguration) -> bool:
    cleanups = [service for service in postfix.services if service.program == "cleanup"]
    return all(postfix.value("enable_original_recipient", service).lower() != "no" for service in cleanups)


def _return_service(
    postfix: PostfixConfiguration,
    service: PostfixService,
    ways: Mapping[PostfixService, Mapping[str, str]],
    ours: FilterSide,
) -> Iterator[Finding]:
    if ways[service]:
        yield LOOP(service=service, ways=", ".join(ways[service]))
    elif _runs_milters(postfix, service):
        yield MILTERS_TWICE(service=service)
    other_filter = _other_filter(postfix, service, ours)
    endpoint = filter_endpoint(other_filter, postfix.value("queue_directory"))
    if endpoint is not None and endpoint.host_or_path == LOOPBACK:  # one elsewhere may be the end of the way
        others = [other for other in ways if other is not service]
        backs = [other for other in others if other.is_of_this_machine] or others
        if all(ways[back] or _other_filter(postfix, back, ours) for back in backs):
            yield THIRD_FILTER_LOOP(service=service, filter=other_filter, services=_listed(backs))


def _judged_twice(
    postfix: PostfixConfiguration, leading: Mapping[PostfixService, Mapping[str, str]], ours: FilterSide
) -> Iterator[Finding]:
    """Yield the services that a third filter hands mail back to, and that ask our milter once more."""
    asking = [service for service, found in leading.items() if "smtpd_milters" in found]
    filtered = next((service for service in asking if _other_filter(postfix, service, ours)), None)
    if filtered is None:
        return
    backs = [service for service in asking if service is not filtered and service.is_of_this_machine]
    for back in backs:
        if not _other_filter(postfix, back, ours):
            yield JUDGED_TWICE(service=filtered, filter=_other_filter(postfix, filtered, ours), back=back)


def _other_filter(postfix: PostfixConfiguration, service: PostfixService, ours: FilterSide) -> str:
    """Return the filter that is not ours to which a service leads mail; empty where there is none."""
    queue = postfix.value("queue_directory")
    values = [postfix.value(way, service) for way in ("content_filter", "smtpd_proxy_filter")]
    others = [value for value in values if value and not ours.listener_at(filter_endpoint(value, queue), queue)]
    return others[0] if others else ""


def _listed(services: Sequence[PostfixService]) -> str:
    return ", ".join(map(str, services))


def _feedback(
    postfix: PostfixConfiguration,
    ways: Mapping[PostfixService, Mapping[str, str]],
    returns: set[PostfixService],
    ours: FilterSide,
) -> Iterator[Finding]:
    """Yield the services by which strangers reach a feedback address, if such mail goes to nbstream at all."""
    queue = postfix.value("queue_directory")
    transports = [
        ours.listener_at(filter_endpoint(way, queue), queue)
        for way in inline_values(postfix.value("transport_maps"))
    ]
    # A milter guards its feedback addresses itself.
    if not any(transports) and not any(set(found) - {"smtpd_milters"} for found in ways.values()):
        return
    is_open = False
    for service in ways:
        for address in ours.feedback_addresses:
            if service not in returns and not _is_guarded(postfix, service, address.lower()):
                is_open = True
                yield FEEDBACK_OPEN(service=service, address=address)
    if not is_open:
        yield FEEDBACK_GUARDED()


def _is_guarded(postfix: PostfixConfiguration, service: PostfixService, address: str) -> bool:
    """Whether the restrictions of a service keep strangers from writing to an address.

    A table that is no ``inline:`` one is believed: what is in it is not read.
    """
    domain = address.rpartition("@")[2]
    words = [word for name in _RESTRICTIONS for word in postfix.words(name, service)]
    tables = [table for check, table in pairwise(words) if check == "check_recipient_access"]
    if any(domain in table.lower() or not table.startswith("inline:") for table in tables):
        return True
    is_local = any(domain in map(str.lower, postfix.words(name, service)) for name in _LOCAL_DOMAINS)
    return "reject" in words or (not is_local and bool(_NO_RELAYING & set(words)))


def _sizes(
    postfix: PostfixConfiguration, leading: Mapping[PostfixService, Mapping[str, str]], ours: FilterSide
) -> Iterator[Finding]:
    exceeds = False
    for service, ways in leading.items():
        size = int(postfix.value("message_size_limit", service) or 0)
        for listener in ways.values():
            limit = ours.size_limits[listener]
            if limit and (size == 0 or size > limit):
                exceeds = True
                shown = f"{size} bytes" if size else "any size"
                yield TOO_LARGE(service=service, postfix=shown, listener=listener, limit=f"{limit} bytes")
    if not exceeds:
        yield SIZE()


def _failures(
    postfix: PostfixConfiguration, leading: Mapping[PostfixService, Mapping[str, str]], ours: FilterSide
) -> Iterator[Finding]:
    wanted = _FAILURE_ACTIONS[ours.on_filter_failure]
    for service, ways in leading.items():
        action = postfix.value("milter_default_action", service)
        if "smtpd_milters" in ways and action != wanted:
            yield MILTER_FAILURE(action=action, policy=ours.on_filter_failure, wanted=wanted)
            break
