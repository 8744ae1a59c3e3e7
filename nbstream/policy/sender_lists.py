"""Sender lists: the senders that always or never pass, of the site and of each user.

An entry is an address, a domain, the subdomains of a domain, or a network of the client that brought the message.
Its kind says what becomes of mail from there.

Rules:

- Anybody can write any sender. An entry that allows is for the one address of the From field, and counts only
  where that address is proved; else it changes nothing. An entry that blocks needs no proof, and is for the sender
  of the envelope as well.
- What proves an address: SPF, DKIM or DMARC in a field of a trusted server, for a domain that is aligned with that
  of the address; or a login as this address. Two domains are aligned where they are equal, or one lies below the
  other. That is the relaxed alignment of DMARC (RFC 7489, section 3.1) without a list of public suffixes: two
  domains side by side below the same one are not aligned here. Where DMARC failed, nothing is proved. A network is
  proved by the connection itself.
- The user's list decides before that of the site: it is their mail. Of one list the more exact entry decides, of
  equally exact ones that which blocks.

Nothing here does I/O. What is compared are canonical addresses and domains: ``mail.addresses``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from nbstream.mail import header_fields
from nbstream.mail.addresses import canonical_address, canonical_domain, read_from
from nbstream.policy.address_patterns import SenderPattern
from nbstream.policy.verdict import Verdict
from nbstream.tokens.authentication import trusted_results

if TYPE_CHECKING:
    from nbstream.mail.header_fields import HeaderField
    from nbstream.mail.message import Message

SITE = "site"
"""The owner of the site's list; the owner of a user's list is their address."""

LIST_OWNERS = (SITE, "user")
"""Whose list decided; of users it is not said which one."""

Client: TypeAlias = IPv4Address | IPv6Address


class ListKind(StrEnum):
    """What an entry says of a sender: their mail always passes, or never does."""

    ALLOW = "allow"
    BLOCK = "block"


class ListEntry(NamedTuple):
    """An entry of a list; where people wrote it ``actor`` says who, and ``at`` when (seconds since the epoch)."""

    kind: ListKind
    pattern: SenderPattern
    at: float = 0.0
    actor: str = ""


class OwnerList:
    """The entries of one owner; of entries with the same pattern the last one holds."""

    __slots__ = ("_kinds", "_networks")  # there may be one for each user

    def __init__(self, entries: Iterable[ListEntry] = ()) -> None:
        by_text = {entry.pattern.text: entry for entry in entries}
        self._kinds = {text: entry.kind for text, entry in by_text.items() if not entry.pattern.network}
        self._networks = tuple([entry for entry in by_text.values() if entry.pattern.network])

    def __len__(self) -> int:
        return len(self._kinds) + len(self._networks)

    @property
    def entries(self) -> Sequence[ListEntry]:
        """The entries, the networks last."""
        named = [ListEntry(kind, SenderPattern(text)) for text, kind in self._kinds.items()]
        return (*named, *self._networks)

    def decide(self, evidence: SenderEvidence, owner: str) -> ListDecision | None:
        """Return what the entry says that decides, or None where no entry matches.

        An entry that allows, and is not proved, is returned only where no entry blocks.
        """
        named = self._address_rank(ListKind.ALLOW, evidence.allowable_addresses)
        allowed = named if evidence.proves_address else None
        if allowed is None:
            allowed = self._network_rank(ListKind.ALLOW, evidence.client)
        blocked = self._address_rank(ListKind.BLOCK, evidence.blockable_addresses)
        if blocked is None:
            blocked = self._network_rank(ListKind.BLOCK, evidence.client)
        if allowed is not None and (blocked is None or allowed < blocked):
            return ListDecision(ListKind.ALLOW, owner, rank=allowed)
        if blocked is not None:
            return ListDecision(ListKind.BLOCK, owner, rank=blocked)
        return None if named is None else ListDecision(ListKind.ALLOW, owner, decides=False, rank=named)

    def _address_rank(self, kind: ListKind, addresses: Sequence[str]) -> int | None:
        """Return how exact the most exact entry of this kind is that names one of these; 0 is an address."""
        return min((rank for address in addresses for rank in self._ranks(kind, address)), default=None)

    def _network_rank(self, kind: ListKind, client: Client | None) -> int | None:
        networks = [entry.pattern.network for entry in self._networks if entry.kind is kind]
        is_in_network = client is not None and any(client in network for network in networks if network)
        return _NETWORK_RANK if is_in_network else None

    def _ranks(self, kind: ListKind, address: str) -> Iterator[int]:
        domain = address.rpartition("@")[2]
        for rank, text in enumerate((address, domain)):
            if self._kinds.get(text) is kind:
                yield rank
        for rank, parent in enumerate(_parents(domain), start=2):
            if self._kinds.get(f"*.{parent}") is kind:
                yield rank


_NETWORK_RANK = 1000  # a domain has fewer levels
_NO_LIST = OwnerList()


def _parents(domain: str) -> Iterator[str]:
    """Yield the domains above ``domain``, the nearest first."""
    while "." in domain:
        domain = domain.partition(".")[2]
        yield domain


class Sender(NamedTuple):
    """Who sent a message, as far as its listener knows.

    ``address`` is the sender of the envelope: empty for the null sender, None where it is not known. ``client`` is
    the address of the host that brought the message, and ``login`` the user who logged in there; each is empty
    where it is not known. The client is that of our own mail server, which has to name it: a network that matched
    our own server would match all mail. ``is_vouched_for``: who names the login may teach as well.
    """

    address: str | None = None
    client: str = ""
    login: str = ""
    is_vouched_for: bool = False


UNKNOWN_SENDER = Sender()
"""The sender of a message of which its listener knows nothing."""


@dataclass(frozen=True)
class SenderEvidence:
    """Who sent a message, and what proves it.

    ``from_addresses`` are those of the From fields, and ``envelope_sender`` is empty where it is null or not
    known. ``is_single`` says that the message has one From field with one address and nothing that could be read
    in another way. ``proved_domains`` are those that SPF, DKIM or DMARC have proved. All are canonical.
    """

    from_addresses: tuple[str, ...] = ()
    is_single: bool = False
    envelope_sender: str = ""
    proved_domains: frozenset[str] = frozenset()
    client: Client | None = None
    login: str = ""

    @property
    def allowable_addresses(self) -> tuple[str, ...]:
        """The address that may be allowed; none where there is not exactly one."""
        return self.from_addresses if self.is_single else ()

    @cached_property
    def blockable_addresses(self) -> tuple[str, ...]:
        """The addresses that may be blocked."""
        sender = self.envelope_sender
        return (*self.from_addresses, sender) if "@" in sender else self.from_addresses

    @cached_property
    def proves_address(self) -> bool:
        """Whether the address of the From field is proved."""
        if not self.is_single:
            return False
        (address,) = self.from_addresses
        domain = address.rpartition("@")[2]
        return self.login == address or any(is_aligned(domain, proved) for proved in self.proved_domains)


def is_aligned(domain: str, proved: str) -> bool:
    """Return whether what proves the domain ``proved`` proves ``domain`` too; both are canonical."""
    return domain == proved or domain.endswith(f".{proved}") or proved.endswith(f".{domain}")


def read_header(message: Message) -> tuple[Sequence[HeaderField], bool]:
    """Return the header fields of a message, and whether these are all; nothing else is read."""
    head = b"" if message.is_bare_text else message.raw[: header_fields.MAX_HEADER_BYTES + 1]
    end = header_fields.body_offset(head)
    return header_fields.parse_fields(head, end), end <= header_fields.MAX_HEADER_BYTES


@dataclass(frozen=True, slots=True)
class EvidenceReader:
    """Reads who sent a message; the arguments are the settings of the same names."""

    trusted_authserv_ids: frozenset[str] = frozenset()
    own_received_fields: int = 0

    def read(self, message: Message, sender: Sender) -> SenderEvidence:
        """Return who sent a message, and what proves it."""
        return self.read_fields(*read_header(message), sender)

    def read_fields(self, fields: Sequence[HeaderField], is_whole: bool, sender: Sender) -> SenderEvidence:
        """Return who sent the message with this header; the first arguments are those of ``read_header``."""
        addresses, is_single = read_from(fields)
        is_single &= is_whole  # else there may be another From field
        return SenderEvidence(
            addresses,
            is_single,
            canonical_address(sender.address or ""),
            frozenset(self._proved_domains(fields)) if is_single else frozenset(),
            _read_client(sender.client),
            canonical_address(sender.login) if "@" in sender.login else "",
        )

    def _proved_domains(self, fields: Sequence[HeaderField]) -> Iterator[str]:
        results = list(trusted_results(fields, self.trusted_authserv_ids, self.own_received_fields))
        dmarc = {result.result for result in results if result.method == "dmarc"}
        if "fail" in dmarc and "pass" not in dmarc:
            return  # it knows public suffixes, and domains that want no other one to speak for them
        for result in results:
            names = _PROVING_PROPERTIES.get(result.method)
            domain = result.domain(*names) if names and result.result == "pass" else ""
            if domain:
                yield canonical_domain(domain)


# The properties that name the domain that a method has proved. SPF of the name in HELO proves the server alone.
_PROVING_PROPERTIES = {
    "spf": ("smtp.mailfrom",),
    "dkim": ("header.d", "header.i"),
    "dmarc": ("header.from",),
}


def _read_client(text: str) -> Client | None:
    try:
        client = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(client, "ipv4_mapped", None) or client


LIST_DECISIONS = ("allow", "block", "allow-unproved")
"""The names of all decisions."""


REASON_FOR_OTHERS = "the mildest decision for the recipients"
"""The reason of a decision by the list of one user that holds for others too, who are not to know of it."""


@dataclass(frozen=True, slots=True)
class ListDecision:
    """What a list says of a message for one recipient.

    ``owner`` is one of ``LIST_OWNERS``. ``decides`` is not set for an entry that allows a sender who is not
    proved: then nothing is changed by it. ``rank`` is how exact the entry is; 0 is the most exact.
    """

    kind: ListKind
    owner: str
    decides: bool = True
    rank: int = field(default=0, compare=False)

    @property
    def order(self) -> tuple[bool, int, bool]:
        """Of two decisions by lists of one owner the one with the smaller order holds."""
        return not self.decides, self.rank, self.kind is ListKind.ALLOW

    @property
    def name(self) -> str:
        """``allow``, ``block`` or ``allow-unproved``."""
        return str(self.kind) if self.decides else f"{self.kind}-unproved"

    @property
    def lets_pass(self) -> bool:
        """Whether the message is ham because the list says so."""
        return self.decides and self.kind is ListKind.ALLOW

    @property
    def verdict(self) -> Verdict:
        """The verdict of the list."""
        return Verdict.HAM if self.kind is ListKind.ALLOW else Verdict.SPAM

    def __str__(self) -> str:
        return f"list={self.name}, owner={self.owner}"

    def apply(self, verdict: Verdict, reason: str) -> tuple[Verdict, str]:
        """Return the verdict and the reason of a message that has these without the list."""
        return (self.verdict, str(self)) if self.decides else (verdict, f"{reason}; {self}")


@dataclass(frozen=True, slots=True)
class SenderLists:
    """The lists of the site and of its users, and what reads who sent a message.

    ``configured`` is the list in the settings. ``stored`` are the lists that people change while the daemon runs,
    by owner; a mapping whose content changes is followed. ``user_of`` returns the address of the user behind that
    of a recipient, which is canonical.
    """

    configured: OwnerList = _NO_LIST
    stored: Mapping[str, OwnerList] = field(default_factory=dict)
    reader: EvidenceReader = EvidenceReader()
    user_of: Callable[[str], str] = canonical_address

    def look_up(self, message: Message, sender: Sender = UNKNOWN_SENDER) -> SenderLookup:
        """Return what the lists say of who sent ``message``, which is read only where there is a list."""
        has_lists = bool(self.stored) or bool(self.configured)
        return SenderLookup(self, self.reader.read(message, sender) if has_lists else None)

    def of_site(self) -> Iterator[OwnerList]:
        """Yield the lists of the site."""
        yield self.configured
        if (stored := self.stored.get(SITE)) is not None:
            yield stored

    def of_user(self, recipient: str) -> OwnerList | None:
        """Return the list of the user who gets the mail of this recipient, if there is one."""
        user = self.user_of(recipient)
        return self.stored.get(user) if "@" in user else None


class SenderLookup:
    """What the lists say of one sender; ``evidence`` is None where there are no lists."""

    def __init__(self, lists: SenderLists, evidence: SenderEvidence | None) -> None:
        self._lists = lists
        self._evidence = evidence

    def decide_for(self, recipient: str | None) -> ListDecision | None:
        """Return what the lists say of the message for ``recipient``; None stands for one who is not known."""
        if self._evidence is None:
            return None
        user_list = self._lists.of_user(recipient) if recipient else None
        by_user = user_list.decide(self._evidence, "user") if user_list else None
        by_site = self._by_site
        return by_user if by_user and (by_user.decides or by_site is None or not by_site.decides) else by_site

    @cached_property
    def _by_site(self) -> ListDecision | None:
        assert self._evidence is not None
        decisions = [site_list.decide(self._evidence, SITE) for site_list in self._lists.of_site()]
        return min(filter(None, decisions), key=lambda decision: decision.order, default=None)


NO_LISTS = SenderLists()
"""The lists where there are none."""

NO_LOOKUP = SenderLookup(NO_LISTS, None)
"""What no list says of anybody."""


def list_owner(address: str) -> str:
    """Return the owner of the list of the user with this address."""
    return canonical_address(address)
