"""Results of authentication become tokens where our own server wrote them, and nowhere else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail.header_fields import parse_fields
from nbstream.mail.message import Message
from nbstream.tokens.authentication import MAX_RESULTS, authentication_tokens
from nbstream.tokens.tokenizer import Tokenizer, TokenizerOptions

ID = "mx.example.org"
TRUSTED = frozenset({ID})
RECEIVED = "Received: from a.example by mx.example.org with ESMTPS; Sun, 1 Jan 2023 00:00:00 +0000"
RESULTS = (
    "spf=pass smtp.mailfrom=ann@mail.x.example; dkim=pass (2048-bit key) header.d=x.example header.s=s1 "
    "header.b=abc/def=; dmarc=fail (p=none dis=none) header.from=x.example"
)
FOLDED = RESULTS.replace("; ", ";\r\n\t")
SPACED = RESULTS.replace("=", " = ", 3)
WITH_REASON = RESULTS.replace("spf=pass", 'spf/1=pass reason="good; dkim=fail header.d=y.example"')
PREFIX = "authentication-results:"
FOUND = [
    "spf=pass",
    "spf=pass:mail.x.example",
    "spf=pass:x.example",
    "dkim=pass",
    "dkim=pass:x.example",
    "dmarc=fail",
    "dmarc=fail:x.example",
]


def tokens_of(*lines: str, trusted: frozenset[str] = TRUSTED, own_received_fields: int = 0) -> list[str]:
    header = "\r\n".join(lines).encode()
    tokens = authentication_tokens(parse_fields(header, len(header)), trusted, own_received_fields)
    assert all(token.startswith(PREFIX) for token in tokens)
    return [token.removeprefix(PREFIX) for token in tokens]


def results_of(value: str) -> list[str]:
    return tokens_of(f"Authentication-Results: {value}", RECEIVED)


def test_what_our_own_server_found_is_read() -> None:
    assert results_of(f"{ID}; {RESULTS}") == FOUND


@pytest.mark.parametrize(
    "value",
    [
        f"{ID.upper()}; {RESULTS}",
        f'"{ID}"; {RESULTS}',
        f"{ID} 1; {RESULTS}",
        f"(comment (in a comment) \\) {ID}.example;) {ID} (and) 1 ; {RESULTS}",
        f"{ID};\r\n\t{FOLDED}",
        f"{ID}; {SPACED};",
        f"{ID}; {WITH_REASON}",
        f"{ID}; x-ourfilter=spam; {RESULTS}; x=y z.a=b",
    ],
)
def test_the_syntax_of_rfc_8601_is_understood(value: str) -> None:
    assert results_of(value) == FOUND


@pytest.mark.parametrize(
    ("results", "found"),
    [
        ("none", []),
        ("spf=none smtp.helo=h.example", ["spf=none", "spf=none:h.example"]),
        ("dkim=pass header.i=@x.example", ["dkim=pass", "dkim=pass:x.example"]),
        ("arc=pass (i=1); iprev=fail policy.iprev=192.0.2.1", ["arc=pass", "iprev=fail"]),
        ("auth=pass smtp.auth=ann@x.example", ["auth=pass"]),
        ("spf=pass smtp.mailfrom=", ["spf=pass"]),
        ("spf=pass smtp.mailfrom=localhost", ["spf=pass"]),
        ("spf; spf=; =pass; spf=p@ss", []),
    ],
)
def test_each_method_has_its_own_property(results: str, found: list[str]) -> None:
    assert results_of(f"{ID}; {results}") == found


SENT_BY_EVIL = [
    "spf=pass smtp.mailfrom=paypal.com=x@evil.org",
    "spf=pass smtp.mailfrom=paypal.com/x@evil.org",
    'spf=pass smtp.mailfrom="paypal.com"@evil.org',
    'spf=pass smtp.mailfrom="x@paypal.com"@evil.org',
    'spf=pass smtp.mailfrom="x@paypal.com" @evil.org',
    'spf=pass smtp.mailfrom="x smtp.mailfrom=paypal.com"@evil.org',
    'spf=pass smtp.mailfrom="\\"x@paypal.com\\"@evil.org"',
    'spf=pass smtp.mailfrom="paypal.com;spf=x@evil.org"',
    "spf=pass smtp.mailfrom=paypal.com\N{NO-BREAK SPACE}@evil.org",
    "spf=pass smtp.mailfrom=paypal.com\v@evil.org",
    "spf=pass smtp.mailfrom=paypal.com(x)@evil.org",
    "spf=pass smtp.mailfrom=bounces+1=bob=paypal.com@evil.org smtp.helo=paypal.com",
]


@pytest.mark.parametrize("result", SENT_BY_EVIL)
def test_the_local_part_of_an_address_is_not_its_domain(result: str) -> None:
    assert results_of(f"{ID}; {result}") == ["spf=pass", "spf=pass:evil.org"]


@pytest.mark.parametrize("local", ["x=header.d=bank.com/", "x(x)header.d=bank.com", '"x header.d=bank.com"'])
def test_the_local_part_of_a_signer_is_not_the_domain_that_signed(local: str) -> None:
    assert results_of(f"{ID}; dkim=pass header.i={local}@evil.org header.d=evil.org") == [
        "dkim=pass",
        "dkim=pass:evil.org",
    ]


@pytest.mark.parametrize(
    ("results", "found"),
    [
        ("spf=none smtp.mailfrom=(x)smtp.helo=paypal.com", "spf=none"),
        ("spf=none smtp.mailfrom= smtp.helo=paypal.com", "spf=none"),
        ("spf=none smtp.helo=x(x)smtp.mailfrom=paypal.com", "spf=none"),
        ("spf=pass smtp.mailfrom=paypal.com(x@evil.org", "spf=pass"),
        ("spf=pass smtp.mailfrom=x@paypal.com(x@evil.org", "spf=pass"),
        ('spf=pass smtp.mailfrom=paypal.com"x@evil.org', "spf=pass"),
        ('spf=pass smtp.mailfrom="@evil.org; dmarc=none header.from=x@paypal.com', "spf=pass"),
        ('spf=pass smtp.mailfrom="paypal.com"', "spf=pass"),
        ('spf=pass smtp.mailfrom=x"@paypal.com"', "spf=pass"),
        ("spf=pass smtp.mailfrom=paypal.com/x", "spf=pass"),
        ("dkim=pass header.i=x header.d=bank.com @evil.org header.d=evil.org", "dkim=pass"),
        (f"dmarc=pass header.from={'a' * 44}.{'b' * 44}.paypal.com.evil.org", "dmarc=pass"),
    ],
)
def test_what_could_be_read_in_two_ways_gives_no_domain(results: str, found: str) -> None:
    assert results_of(f"{ID}; {results}") == [found]


@pytest.mark.parametrize(
    "result",
    [
        "spf=pass smtp.mailfrom=bounces+1=bob=example.com@x.example",
        'spf=pass smtp.mailfrom="prvs=1=ann@x.example"',
        "spf=pass(a comment) smtp.mailfrom=<ann@x.example> (another) smtp.helo=h.example",
        "spf / 1 = pass action=none smtp.mailfrom =\r\n\t(why) x.example reason=100",
    ],
)
def test_honest_addresses_have_their_domain(result: str) -> None:
    assert results_of(f"{ID}; {result}") == ["spf=pass", "spf=pass:x.example"]


@pytest.mark.parametrize(
    "value",
    [
        f"mx.other.example; {RESULTS}",
        f"({ID}) mx.other.example; {RESULTS}",
        f"mx.other.example; ({ID};) {RESULTS}",
        f"mx.other.example {ID}; {RESULTS}",
        f"{ID}.other.example; {RESULTS}",
        f"other.{ID}; {RESULTS}",
        f"{ID} 2; {RESULTS}",
        f"{ID} 1 1; {RESULTS}",
        f"; {RESULTS}",
        f'""; {RESULTS}',
        f"({ID}; {RESULTS}",
        f"={ID}; {RESULTS}",
        RESULTS,
        "",
    ],
)
def test_what_another_server_says_is_not_read(value: str) -> None:
    assert results_of(value) == []


def test_what_stands_below_a_received_field_is_not_read() -> None:
    field = f"Authentication-Results: {ID}; {RESULTS}"
    assert tokens_of(RECEIVED, field) == []
    assert tokens_of(RECEIVED, field, RECEIVED) == []
    assert tokens_of("received: x", field, RECEIVED) == []


def test_below_the_received_fields_of_our_own_servers_it_is_read() -> None:
    first, second = ("Authentication-Results: " + f"{ID}; {method}=pass" for method in ("spf", "dkim"))
    lines = (first, RECEIVED, second, RECEIVED, f"Authentication-Results: {ID}; {RESULTS}")
    assert tokens_of(*lines) == ["spf=pass"]
    assert tokens_of(*lines, own_received_fields=1) == ["spf=pass", "dkim=pass"]
    assert tokens_of(*lines, own_received_fields=2) == ["spf=pass", "dkim=pass", *FOUND[1:3], *FOUND[4:]]
    assert tokens_of(RECEIVED, second, "From: a@b.example", own_received_fields=1) == ["dkim=pass"]
    assert tokens_of(second, "From: a@b.example", own_received_fields=1) == []


def test_a_forged_field_adds_nothing_to_the_own_one() -> None:
    own = f"Authentication-Results: {ID}; spf=fail smtp.mailfrom=x.example"
    forged = f"Authentication-Results: {ID}; spf=pass smtp.mailfrom=bank.example"
    others = ("X-Authentication-Results", "Authentication-Results-Original", "ARC-Authentication-Results")
    assert tokens_of(
        f"Authentication-Results: mx.other.example; {RESULTS}",
        own,
        *(f"{name}: {ID}; {RESULTS}" for name in others),
        RECEIVED,
        forged,
    ) == ["spf=fail", "spf=fail:x.example"]


def test_a_field_gives_a_bounded_number_of_tokens() -> None:
    results = "; ".join(f"dkim=pass header.d=x{n}.example" for n in range(1000))
    assert len(results_of(f"{ID}; {results}")) == 1 + MAX_RESULTS


def test_of_a_field_that_was_cut_the_last_result_is_not_read() -> None:
    head = f"{ID}; dkim=pass ({'x' * 3900}) header.d=x.example; spf=pass smtp.mailfrom="
    assert results_of(f"{head}{'y' * 200}.example") == ["dkim=pass", "dkim=pass:x.example"]


@given(st.text(alphabet='mx.example.org;=/() "\\1spfdkimpass@\r\n\t', max_size=120))
def test_any_value_is_read(value: str) -> None:
    results_of(f"{ID};{value}")
    results_of(value)


@pytest.mark.parametrize("filling", ["(", ")", '"', "\\", "=", ";", "a=", "(a", '"\\', "spf=pass;", " ", "x.x="])
def test_a_megabyte_of_pathological_input_is_read(filling: str) -> None:
    # Quadratic work on 1 MB would outlast any test run.
    results_of(f"{ID};" + filling * (1_000_000 // len(filling)))


RAW = f"Authentication-Results: {ID}; {RESULTS}\r\n{RECEIVED}\r\nFrom: a@x.example\r\n\r\nhello\r\n".encode()


def test_the_setting_changes_tokens_and_not_the_key() -> None:
    message = Message.parse(RAW)
    with_results = set(Tokenizer(TokenizerOptions(trusted_authserv_ids=TRUSTED)).tokenize(message).tokens.head)
    without = set(Tokenizer().tokenize(message).tokens.head)

    assert with_results - without == {f"{PREFIX}{found}".encode() for found in FOUND}
    assert without <= with_results
    assert message.key == Message.parse(RAW.partition(b"\r\n")[2]).key


def test_no_other_field_gives_such_tokens() -> None:
    forged = RAW.replace(
        b"\r\n\r\n", b"\r\nAuthentication-Results : spf=pass\r\nauthentication-results: dkim=pass\r\n\r\n"
    )
    tokens = Tokenizer().tokenize(Message.parse(forged)).tokens.all
    assert not any(token.startswith(PREFIX.encode()) for token in tokens)
