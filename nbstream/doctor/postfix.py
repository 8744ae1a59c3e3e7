"""Postfix: whether mail goes to nbstream once, comes back without a loop, and strangers cannot teach."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
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
    split_words,
    tcp_endpoint,
)
from nbstream.findings import note, ok, problem, warning
from nbstream.policy.actions import ActionKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from nbstream.config import Settings
    from nbstream.doctor.examination import Site
    from nbstream.doctor.postfix_configuration import PostfixConfiguration, PostfixService
    from nbstream.findings import Finding, FindingKind
    from nbstream.policy.settings import RecipientRuleSettings

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
    "The transport {service.name} folds lines of more than {value} bytes on their way to nbstream: such mail is "
    "altered, and its DKIM signatures break.",
    "Give it -o {service.program}_line_length_limit=0 in master.cf, as deploy/postfix/master.cf has it.",
)
EVERYBODY_TRUSTED = problem(
    "postfix.networks",
    "The service {service} trusts the network {value} (mynetworks): strangers may teach, and send mail to "
    "anywhere.",
    "Name only networks of your own in mynetworks.",
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
    "The service {service} takes messages of up to {value}, and listeners.{listener} of up to "
    "{ours.size_limit} bytes.",
    "Lower message_size_limit or raise limits.max_message_bytes, or large mail is refused after it was accepted.",
)
SIZE = ok("postfix.size", "Postfix takes no larger messages than nbstream.")
MILTER_FAILURE = warning(
    "postfix.milter",
    "While nbstream is away, Postfix goes by milter_default_action = {value}; where a check fails, nbstream "
    "goes by on_filter_failure: {ours.on_filter_failure}. These are contrary.",
    "Set milter_default_action to {ours.milter_default_action}, or change on_filter_failure: defer goes with "
    "tempfail, pass with accept.",
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
    "Mail that is redirected ({ours.redirects}) can be lost: enable_original_recipient is no, so Postfix adds no "
    "recipient to whom an alias of the former one leads already.",
    "Set enable_original_recipient to yes, which is its default.",
)

_FILTERS = ("content_filter", "smtpd_proxy_filter")
_TRANSPORTS = ("virtual_transport", "mailbox_transport", "local_transport", "relay_transport", "default_transport")
_FAILURE_ACTIONS = {"pass": "accept", "defer": "tempfail"}
_LOCAL_DOMAINS = ("mydestination", "relay_domains", "virtual_mailbox_domains", "virtual_alias_domains")
_RESTRICTIONS = ("smtpd_relay_restrictions", "smtpd_recipient_restrictions")
_NO_RELAYING = {"reject_unauth_destination", "defer_unauth_destination"}
_OWN_PREFIX = {4: 8, 6: 16}  # a network with a shorter prefix is nobody's own
_COMPUTED = ("myhostname", "mydomain", "cleanup_replace_stray_cr_lf")
"""Parameters whose default is not the same everywhere: it depends on the machine, or on the release."""
_SECONDS = 10.0
_SYSTEM_PATH = f"{os.defpath}:/usr/sbin:/usr/local/sbin:/sbin"


@dataclass(frozen=True, slots=True)
class FilterSide:
    """What matters to Postfix of the settings of nbstream.

    ``listeners`` are the endpoints by the names of the listeners, ``size_limit`` the bytes that each takes, 0 for
    any number. ``next_hop`` is None for a Maildir. ``refusals`` and ``redirects`` are the settings by which
    mail may be refused and redirected.
    """

    listeners: Mapping[str, Endpoint]
    size_limit: int
    next_hop: Endpoint | None
    feedback_addresses: tuple[str, ...]
    on_filter_failure: str
    refusals: str
    redirects: str
    authserv_ids: tuple[str, ...] = ()
    own_received_fields: int = 0

    @property
    def milter_default_action(self) -> str:
        """What Postfix has to do without its milter, so that it does the same as nbstream without a verdict."""
        return _FAILURE_ACTIONS[self.on_filter_failure]


@dataclass(frozen=True)
class MailFlow:
    """Where a Postfix leads mail, as far as it concerns this nbstream. Pure."""

    postfix: PostfixConfiguration
    ours: FilterSide

    def endpoint(self, value: str) -> Endpoint | None:
        """Return where a value such as that of ``content_filter`` leads."""
        return filter_endpoint(value, self.postfix.value("queue_directory"))

    def listener(self, value: str) -> str | None:
        """Return the name of the listener to which it leads; a path may be seen from the chroot of Postfix."""
        endpoint, seen = self.endpoint(value), set()
        if endpoint is not None:
            seen = {endpoint}
            if not endpoint.port:
                seen.add(Endpoint(f"{self.postfix.value('queue_directory')}{endpoint.host_or_path}"))
        return next((name for name, own in self.ours.listeners.items() if own in seen), None)

    def value(self, parameter: str, service: PostfixService) -> str:
        """Return the value of a parameter for a service; what ``smtpd_milters`` sets for our milter alone wins."""
        if parameter == "milter_default_action":
            for word in self.postfix.words("smtpd_milters", service):
                own = re.search(r"\bdefault_action\s*=\s*(\w+)", word)
                if own and self.listener(word):
                    return own[1]
        return self.postfix.value(parameter, service)

    @cached_property
    def ways(self) -> Mapping[PostfixService, Mapping[str, str]]:
        """The listeners to which each service that takes mail leads it, by the parameters that do so."""
        return {service: self._ways(service) for service in self.postfix.smtp_servers}

    def _ways(self, service: PostfixService) -> dict[str, str]:
        values = [(way, self.postfix.value(way, service)) for way in _FILTERS]
        if self.runs_milters(service):
            values += [("smtpd_milters", value) for value in self.postfix.words("smtpd_milters", service)]
        return {way: listener for way, value in values if (listener := self.listener(value))}

    @cached_property
    def returns(self) -> tuple[PostfixService, ...]:
        """The services to which nbstream hands mail back."""
        next_hop = self.ours.next_hop
        return tuple(service for service in self.ways if next_hop is not None and service.endpoint == next_hop)

    @cached_property
    def entrances(self) -> tuple[PostfixService, ...]:
        """The services that take mail from elsewhere."""
        return tuple(service for service in self.ways if service not in self.returns)

    @cached_property
    def leading(self) -> Mapping[PostfixService, Mapping[str, str]]:
        """The ways of those entrances that lead mail to nbstream themselves."""
        return {service: self.ways[service] for service in self.entrances if self.ways[service]}

    @cached_property
    def transports(self) -> Mapping[str, str]:
        """The listeners to which transports of main.cf lead, by the names of the parameters."""
        found = {name: self.listener(self.postfix.value(name)) for name in _TRANSPORTS}
        return {name: listener for name, listener in found.items() if listener is not None}

    @property
    def mapped_transports(self) -> list[str]:
        """The transports in ``inline:`` tables of ``transport_maps``."""
        return inline_values(self.postfix.value("transport_maps"))

    @property
    def connected(self) -> tuple[PostfixService, ...]:
        """The entrances whose mail comes to nbstream: what a transport takes came in by any of them."""
        return self.entrances if self.transports else tuple(self.leading)

    @property
    def asking(self) -> tuple[PostfixService, ...]:
        """The entrances that ask nbstream as a milter."""
        return tuple(service for service, ways in self.leading.items() if "smtpd_milters" in ways)

    def other_milters(self, service: PostfixService) -> list[str]:
        """Return the milters that see mail of a service before nbstream: none where it is a proxy."""
        if self.proxies(service) or not self.runs_milters(service):
            return []
        milters = self.postfix.words("smtpd_milters", service)
        ours = next((i for i, milter in enumerate(milters) if self.listener(milter)), len(milters))
        return milters[:ours]

    def proxies(self, service: PostfixService) -> bool:
        """Return whether a service leads mail to nbstream before milters and header_checks see it."""
        return "smtpd_proxy_filter" in self.ways[service]

    def cleanup(self, service: PostfixService) -> PostfixService | None:
        """Return the service that puts mail of another one into the queue."""
        name = self.postfix.value("cleanup_service_name", service)
        return next((cleanup for cleanup in self.postfix.services if cleanup.name == name), None)

    @property
    def asks_milter(self) -> bool:
        """Whether any service asks nbstream as a milter."""
        return any("smtpd_milters" in ways for ways in self.ways.values())

    def own_transport_services(self) -> list[PostfixService]:
        """Return the services of master.cf that carry mail to nbstream, as smtp(8) and lmtp(8) do."""
        values = [self.postfix.value("content_filter", service) for service in self.postfix.smtp_servers]
        values += [self.postfix.value(name) for name in _TRANSPORTS] + self.mapped_transports
        names = {value.partition(":")[0] for value in values if self.listener(value)}
        services = [service for service in self.postfix.services if service.name in names]
        return [service for service in services if service.type == "unix" and service.program in {"smtp", "lmtp"}]

    def runs_milters(self, service: PostfixService) -> bool:
        """Return whether a service asks milters at all."""
        overrides = self.postfix.words("receive_override_options", service)
        return bool(self.postfix.words("smtpd_milters", service)) and "no_milters" not in overrides

    def other_filters(self, service: PostfixService) -> Mapping[str, str]:
        """Return the filters that are not ours to which a service leads mail, by the parameters."""
        values = {way: self.postfix.value(way, service) for way in _FILTERS}
        return {way: value for way, value in values.items() if value and not self.listener(value)}

    def other_filter(self, service: PostfixService) -> str:
        """Return the first of these filters; empty where there is none."""
        return next(iter(self.other_filters(service).values()), "")


@dataclass(frozen=True, slots=True)
class Expectation:
    """What the value of a parameter has to be, for some services, and what is said where it is not.

    ``{program}`` in the name of the parameter is the program of the service. ``faults`` returns what is wrong with
    a value: the value itself, or the wrong ones of a list. ``fine`` is said where no service has a fault.
    """

    parameter: str
    services: Callable[[MailFlow], Sequence[PostfixService]]
    faults: Callable[[str, FilterSide], Sequence[str]]
    finding: FindingKind
    fine: FindingKind | None = None

    def compare(self, flow: MailFlow) -> list[Finding]:
        """Return the findings about a Postfix."""
        findings = []
        services = self.services(flow)
        for service in services:
            value = flow.value(self.parameter.format(program=service.program), service)
            listener = next(iter((flow.ways.get(service) or flow.transports).values()), "")
            findings += [
                self.finding(service=service, value=fault, listener=listener, ours=flow.ours)
                for fault in self.faults(value, flow.ours)
            ]
        if services and self.fine and not findings:
            return [self.fine()]
        return list(dict.fromkeys(findings))


def _everybody(networks: str, _: FilterSide) -> list[str]:
    return [word for word in split_words(networks) if _is_everybody(word)]


def _is_everybody(word: str) -> bool:
    with suppress(ValueError):  # a table, or an exclusion
        network = ip_network(word.replace("[", "").replace("]", ""), strict=False)
        return network.prefixlen < _OWN_PREFIX[network.version]
    return False


def _larger(size: str, ours: FilterSide) -> list[str]:
    count = int(size or 0)
    is_larger = ours.size_limit and (count == 0 or count > ours.size_limit)
    return [f"{count} bytes" if count else "any size"] if is_larger else []


EXPECTATIONS = (
    Expectation(
        "{program}_line_length_limit",
        MailFlow.own_transport_services,
        lambda limit, _: [limit] if limit != "0" else [],
        FOLDED,
    ),
    Expectation("mynetworks", lambda flow: flow.connected and flow.entrances, _everybody, EVERYBODY_TRUSTED),
    Expectation("message_size_limit", lambda flow: flow.connected, _larger, TOO_LARGE, SIZE),
    Expectation(
        "milter_default_action",
        lambda flow: flow.asking,
        lambda action, ours: [action] if action != ours.milter_default_action else [],
        MILTER_FAILURE,
    ),
    Expectation(
        "enable_original_recipient",
        lambda flow: flow.postfix.cleanups if flow.asks_milter else (),
        lambda is_kept, ours: [is_kept] if ours.redirects and is_kept.lower() == "no" else [],
        REDIRECT_LOSES,
    ),
)
"""By the parameters of postconf(5)."""


async def examine_postfix(site: Site) -> Sequence[Finding]:
    """Compare the configuration of Postfix with that of nbstream."""
    try:
        flow = await read_mail_flow(site)
    except OSError as error:
        return [NOT_FOUND(why=error)]
    return [*compare(flow), *await in_thread(lambda: list(_milter_sockets(flow)))]


async def read_mail_flow(site: Site) -> MailFlow:
    """Read the configuration of Postfix by ``postconf``. Raises ``OSError`` where there is none to be read."""
    words = postfix_command(site, "postconf")
    computed = await run_program([*words, "-x", *_COMPUTED])
    main, services, options = [await run_program([*words, option]) for option in ("-nx", "-M", "-P")]
    return MailFlow(parse_postfix(computed + main, services, options), filter_side(site.settings))


def postfix_command(site: Site, name: str) -> list[str]:
    """Return the words that begin a command of Postfix. Raises ``OSError`` where it is not installed."""
    program = shutil.which(name) or shutil.which(name, path=_SYSTEM_PATH)
    if program is None:
        raise OSError("it is not installed here")
    folder = site.mail_servers.postfix
    return [program, *(["-c", str(folder)] if folder else [])]


def compare(flow: MailFlow) -> Iterator[Finding]:
    """Yield what is to be said of a Postfix beside this nbstream. Pure."""
    elsewhere = list(_elsewhere(flow))
    yield from elsewhere
    if not flow.leading and not flow.transports and not elsewhere:
        yield NOT_CONNECTED()
    for parameter in flow.transports:
        yield TRANSPORT(parameter=parameter)
    for service, ways in flow.leading.items():
        kind = TWO_WAYS if len(ways) > 1 else CONNECTED
        yield kind(service=service, ways=", ".join(ways))
    for service in flow.returns:
        yield from _return_service(flow, service)
    yield from _judged_twice(flow)
    yield from _feedback(flow)
    for expectation in EXPECTATIONS:
        yield from expectation.compare(flow)
    is_accepted = flow.transports or any("content_filter" in ways for ways in flow.leading.values())
    if flow.ours.refusals and is_accepted:
        yield REFUSED_LATE(setting=flow.ours.refusals)


def _elsewhere(flow: MailFlow) -> Iterator[Finding]:
    """Yield the services whose filter is meant to be nbstream, at an address where it does not listen.

    That is a transport with our name and, where no mail is led here at all, any filter of this machine before a
    Postfix that takes mail back from us.
    """
    smtp = flow.ours.listeners.get("smtp")
    if smtp is None:
        return
    may_be_ours = flow.returns and not flow.leading and not flow.transports
    for service in flow.entrances:
        for way, value in flow.other_filters(service).items():
            endpoint = flow.endpoint(value)
            is_local = endpoint is not None and (endpoint.host_or_path == LOOPBACK or not endpoint.port)
            if endpoint and (value.startswith("nbstream:") or (may_be_ours and is_local)):
                yield ELSEWHERE(service=service, value=value, listening=smtp, way=way, listener="smtp")


def _return_service(flow: MailFlow, service: PostfixService) -> Iterator[Finding]:
    if flow.ways[service]:
        yield LOOP(service=service, ways=", ".join(flow.ways[service]))
    elif flow.runs_milters(service):
        yield MILTERS_TWICE(service=service)
    other_filter = flow.other_filter(service)
    endpoint = flow.endpoint(other_filter)
    if endpoint is not None and endpoint.host_or_path == LOOPBACK:  # one elsewhere may be the end of the way
        others = [other for other in flow.ways if other is not service]
        backs = [other for other in others if other.is_of_this_machine] or others
        if all(flow.ways[back] or flow.other_filter(back) for back in backs):
            yield THIRD_FILTER_LOOP(service=service, filter=other_filter, services=", ".join(map(str, backs)))


def _judged_twice(flow: MailFlow) -> Iterator[Finding]:
    """Yield the services that a third filter hands mail back to, and that ask our milter once more."""
    filtered = next((service for service in flow.asking if flow.other_filter(service)), None)
    if filtered is None:
        return
    for back in flow.asking:
        if back.is_of_this_machine and not flow.other_filter(back):
            yield JUDGED_TWICE(service=filtered, filter=flow.other_filter(filtered), back=back)


def _feedback(flow: MailFlow) -> Iterator[Finding]:
    """Yield the services by which strangers reach a feedback address, if such mail goes to nbstream at all."""
    # A milter guards its feedback addresses itself.
    by_service = any(set(ways) - {"smtpd_milters"} for ways in flow.ways.values())
    if not by_service and not any(map(flow.listener, flow.mapped_transports)):
        return
    open_addresses = [
        FEEDBACK_OPEN(service=service, address=address)
        for service in flow.entrances
        for address in flow.ours.feedback_addresses
        if not _is_guarded(flow.postfix, service, address.lower())
    ]
    yield from open_addresses or [FEEDBACK_GUARDED()]


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


def _milter_sockets(flow: MailFlow) -> Iterator[Finding]:
    """Yield the socket of the milter, where Postfix asks it and its user may not connect."""
    milter = flow.ours.listeners.get("milter")
    if milter is None or milter.port or not flow.asks_milter:
        return
    name = flow.postfix.value("mail_owner")
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
    addresses = {listener.name: listener.listen_address(settings.listeners) for listener in LISTENERS}
    taken = [] if settings.headers.mode == "observe" else list(_taken_actions(settings))
    return FilterSide(
        {name: listener_endpoint(address) for name, address in addresses.items() if address is not None},
        settings.limits.max_message_bytes,
        _next_hop(settings),
        tuple(settings.feedback.addresses.values()),
        settings.on_filter_failure,
        ", ".join(name for name, kind in taken if not kind.takes_message),
        ", ".join(name for name, kind in taken if kind is ActionKind.REDIRECT),
        settings.trusted_authserv_ids,
        settings.own_received_fields,
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
