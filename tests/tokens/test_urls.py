import pytest

from nbstream.tokens.urls import MAX_LINKS, find_links, link_tokens, parent_domains


def test_links_are_found_in_text_and_in_attributes() -> None:
    source = "see http://one.example/a, <a href='https://two.example'>x</a> www.three.example"
    assert find_links(source) == ["http://one.example/a,", "https://two.example", "http://www.three.example"]


def test_a_scheme_hidden_in_character_references_is_found() -> None:
    assert find_links("<a href='&#104;ttp://x.example/'>") == ["http://x.example/"]


@pytest.mark.parametrize(
    ("source", "link"),
    [
        ('<a href="http://exa\tmple.com/x">', "http://example.com/x"),  # browsers leave tabs and line ends out
        ("<a href='https://exa\r\nmple.com'>", "https://example.com"),
        ("<img src=//cdn.example.com/a>", "http://cdn.example.com/a"),
        ("url(//cdn.example.com)", "http://cdn.example.com)"),
        ("http:\\\\example.com\\x", "http://example.com"),
        ("http://exam\u00adple.com", "http://example.com"),
        ("http://example.com\tx", "http://example.com"),  # not in quotes
    ],
)
def test_links_are_read_as_browsers_read_them(source: str, link: str) -> None:
    assert find_links(source) == [link]


def test_a_host_in_other_letters_is_the_host_that_a_browser_asks() -> None:
    assert "url:example.com" in link_tokens("http://\uff45\uff58\uff41\uff4d\uff50\uff4c\uff45\u3002com/")
    assert "url:example.com" in link_tokens("http://exa&tab;mple.com")


@pytest.mark.parametrize("link", ["http://{n}.example/", "www.{n}.example", "http://always.example/"])
def test_of_more_links_than_are_read_half_are_the_last_ones(link: str) -> None:
    many = " ".join(link.format(n=n) for n in range(MAX_LINKS * 3))
    links = find_links(f"http://first.example {many} http://last.example")
    assert links[0] == "http://first.example"
    assert "http://last.example" in links
    assert len(links) <= MAX_LINKS


def test_a_host_brings_its_parent_domains() -> None:
    assert parent_domains("a.b.example.com") == ("a.b.example.com", "b.example.com", "example.com")


@pytest.mark.parametrize(
    ("host", "domains"),
    [
        (
            f"{'a' * 44}.{'b' * 44}.bank.example.evil.test",
            ("bank.example.evil.test", "example.evil.test", "evil.test"),
        ),
        (f"{'a' * 60}.{'b' * 60}.evil.test", (f"{'b' * 60}.evil.test", "evil.test")),
        (f"{'a' * 120}.evil.test", ("evil.test",)),
        (f"{'a' * 120}.test", ()),
        ("a" * 120, ()),
        ("a." * 150 + "bank.example", ()),
    ],
)
def test_a_long_host_keeps_its_end_and_gains_no_domain(host: str, domains: tuple[str, ...]) -> None:
    found = parent_domains(host)
    assert found[-len(domains) :] == domains if domains else found == ()
    assert all(host.endswith(f".{domain}") for domain in found)
    assert {f"url:{domain}" for domain in found} == {
        token for token in link_tokens(f"http://{host}/") if token.startswith("url:")
    }


def test_an_address_brings_its_prefixes() -> None:
    assert parent_domains("192.0.2.7") == ("192.0.2.7", "192.0.2", "192.0")


@pytest.mark.parametrize(
    ("link", "token"),
    [
        ("http://192.0.2.7/x", "url.host:address"),
        ("http://user:secret@x.example/", "url.user:1"),
        ("http://evil.example#a@good.example", "url:evil.example"),
        ("http://evil.example?a@good.example", "url:evil.example"),
        ("http://x.example:8080/", "url.port:8080"),
        ("https://x.example/", "url.scheme:https"),
        ("http://x.example/order/now.php", "url.path:order"),
        ("http://x.example/?id=1", "url.query"),
        ("http://%78.example/", "url.host:escaped"),
        ("http://www.x.example", "url:x.example"),
    ],
)
def test_what_is_odd_about_a_link_is_a_token(link: str, token: str) -> None:
    assert token in link_tokens(link)
