//! Turns links into tokens: host, parent domains, pieces of the path, and what is unusual in the rest.

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::foreign::{Foreign, HandBack, Question};
use crate::mail::bytes;
use crate::tokens::ascii;
use crate::tokens::encoding::push_encoded;
use crate::tokens::html::{resolve_character_references, References};
use crate::tokens::token_list::TokenList;
use crate::tokens::unicode;

/// Of more links the first and the last ones are read.
pub const MAX_LINKS: usize = 100;
/// How many characters of a link are read, from "://" or "www." on.
pub const MAX_LINK_CHARACTERS: usize = 300;
/// In how many characters of a message references are resolved to find the links that they hide.
pub const MAX_RESOLVED_CHARACTERS: usize = 1 << 18;
const HALF: usize = MAX_LINKS / 2;
const MAX_SCHEME_CHARACTERS: usize = 8;
const MAX_PATH_CHARACTERS: usize = 100;
const MAX_PATH_WORD_CHARACTERS: usize = 20;
const MAX_PORT_CHARACTERS: usize = 5;

/// How many characters at the end of a host are read.
pub const MAX_HOST_CHARACTERS: usize = 100;
/// How many characters a name may have (RFC 1035, section 2.3.4).
pub const MAX_NAME_CHARACTERS: usize = 253;

/// Returns the distinct links in text or HTML source (lower case).
///
/// Character references are resolved in `max_resolved` characters, half of them at each end.
pub fn find_links(source: &str, max_resolved: usize, references: &mut References) -> TokenList {
    let source = if bytes::contains(source.as_bytes(), b"&#") {
        Cow::Owned(resolved_ends(source, max_resolved / 2, references))
    } else {
        Cow::Borrowed(source)
    };
    let source = without_backslashes(unicode::without_ignorable(&source));
    let content = source.as_bytes();
    let mut links = TokenList::distinct();
    for (start, end) in bounded_matches(&source, b"://", |_| true) {
        let before = &content[start.saturating_sub(MAX_SCHEME_CHARACTERS)..start];
        let other = before.iter().rposition(|byte| !byte.is_ascii_lowercase());
        let scheme = &before[other.map_or(0, |other| other + 1)..];
        let quote = (start - scheme.len()).checked_sub(1).map(|at| content[at]);
        match quoted_link(&source, start, end, quote) {
            Some(link) => links.push(&[scheme, link.as_bytes()]),
            None => links.push(&[scheme, &content[start..end]]),
        };
    }
    for (start, end) in bounded_matches(&source, b"www.", |_| true) {
        if start == 0 || content[start - 1] != b'/' {
            links.push(&[b"http://", &content[start..end]]);
        }
    }
    let is_relative = |at: usize| at > 0 && matches!(content[at - 1], b'"' | b'\'' | b'=' | b'(');
    for (start, end) in bounded_matches(&source, b"//", is_relative) {
        let link = &content[start..end];
        let slashes = link.iter().take_while(|byte| **byte == b'/').count();
        if ascii::partition(&link[slashes..], b'/').0.contains(&b'.') {
            links.push(&[b"http:", link]);
        }
    }
    if links.len() <= MAX_LINKS {
        return links;
    }
    let mut chosen = TokenList::new();
    for position in (0..HALF).chain(links.len() - HALF..links.len()) {
        chosen.push(&[links.get(position)]);
    }
    chosen
}

/// Returns `source` with "/" for "\\" where browsers read it so, behind the scheme of a link.
fn without_backslashes(source: Cow<str>) -> Cow<str> {
    if bytes::find_byte(source.as_bytes(), b'\\').is_none() {
        return source;
    }
    let mut result = source.into_owned();
    for slashes in [":\\\\", ":\\/", ":/\\"] {
        if result.contains(slashes) {
            result = result.replace(slashes, "://");
        }
    }
    Cow::Owned(result)
}

/// Returns the link between `start` and `end` where it goes on behind tabs and line ends, as one in quotes does.
fn quoted_link(source: &str, start: usize, end: usize, quote: Option<u8>) -> Option<String> {
    let quote = quote.filter(|quote| matches!(quote, b'"' | b'\''))?;
    if !is_left_out(char::from(*source.as_bytes().get(end)?)) {
        return None;
    }
    let rest = &source[start..];
    let read = &rest[..unicode::offset_of(rest, 2 * MAX_LINK_CHARACTERS)];
    let quoted = read.split(char::from(quote)).next().unwrap_or_default();
    let text: String = quoted.chars().filter(|c| !is_left_out(*c)).collect();
    let whole = link_end(&text, "://".len());
    (whole > "://".len()).then(|| text[..whole].to_string())
}

/// Returns whether browsers leave the character out of a link.
fn is_left_out(character: char) -> bool {
    matches!(character, '\t' | '\r' | '\n')
}

/// Returns `source` with the references resolved in the first and the last `half` characters.
fn resolved_ends(source: &str, half: usize, references: &mut References) -> String {
    let length = unicode::length(source);
    let start = unicode::offset_of(source, half);
    let end = unicode::offset_of(source, half.max(length.saturating_sub(half)));
    let mut resolved = references.resolve(&source[..start]).into_owned();
    resolved.push_str(source.get(start..end).unwrap_or_default());
    resolved.push_str(&references.resolve(&source[end..]));
    resolved
}

/// Returns where the links are that begin with `beginning`, where they `may_begin`; of more than `MAX_LINKS` the first and the last ones, half
/// of each.
fn bounded_matches(
    source: &str,
    beginning: &[u8],
    may_begin: impl Fn(usize) -> bool,
) -> Vec<(usize, usize)> {
    let mut first = Vec::new();
    let mut last = VecDeque::new();
    let mut start = 0;
    while let Some(at) = bytes::find_from(source.as_bytes(), beginning, start) {
        start = at + beginning.len();
        let end = link_end(source, start);
        if end == start || !may_begin(at) {
            start = at + 1;
            continue;
        }
        start = end;
        if first.len() < HALF {
            first.push((at, end));
        } else {
            if last.len() == HALF {
                last.pop_front();
            }
            last.push_back((at, end));
        }
    }
    first.extend(last);
    first
}

/// Returns where the characters of a link end that begin at `start`, at most `MAX_LINK_CHARACTERS`.
fn link_end(source: &str, start: usize) -> usize {
    let is_end = |character: char| match character {
        '<' | '>' | '"' | '\'' | '\\' => true,
        _ => unicode::is_space(character),
    };
    let rest = &source[start..];
    // Most links are ASCII, and end soon.
    let read = bytes::up_to(rest.as_bytes(), MAX_LINK_CHARACTERS);
    let end = read
        .iter()
        .position(|byte| !byte.is_ascii() || is_end(char::from(*byte)));
    match end.map(|end| (end, read[end].is_ascii())) {
        Some((end, true)) => return start + end,
        None => return start + read.len(),
        Some((_, false)) => {}
    }
    let end = rest
        .char_indices()
        .take(MAX_LINK_CHARACTERS)
        .find(|(_, character)| is_end(*character));
    let end = end.map_or_else(
        || unicode::offset_of(rest, MAX_LINK_CHARACTERS),
        |(offset, _)| offset,
    );
    start + end
}

/// Appends the tokens of one link that `find_links` returned to `tokens`. Python is asked about a link beyond ASCII.
pub fn push_link_tokens(
    tokens: &mut TokenList,
    link: &[u8],
    foreign: &mut dyn Foreign,
) -> Result<(), HandBack> {
    let text = std::str::from_utf8(link).map_err(|_| HandBack)?;
    let resolved = resolve_character_references(text);
    let resolved = unicode::without_ignorable(&resolved);
    let resolved: Cow<str> = if resolved.contains(is_left_out) {
        Cow::Owned(resolved.chars().filter(|c| !is_left_out(*c)).collect())
    } else {
        resolved
    };
    if !(resolved.is_ascii() && push_ascii_link_tokens(tokens, resolved.as_bytes())) {
        for token in foreign.ask(Question::LinkTokens, &[link])? {
            tokens.push(&[&token]);
        }
    }
    Ok(())
}

/// Appends the tokens of a link without references; returns false, and appends none, where its host has bytes beyond
/// ASCII in escapes.
fn push_ascii_link_tokens(tokens: &mut TokenList, link: &[u8]) -> bool {
    let scheme_end = bytes::find(link, b"://").unwrap_or(link.len());
    let scheme = &link[..scheme_end];
    let rest = link.get(scheme_end + 3..).unwrap_or_default();
    let rest = &rest[rest.iter().take_while(|byte| **byte == b'/').count()..];
    let (authority, path) = ascii::partition(rest, b'/');
    let (authority, query) = ascii::partition(ascii::partition(authority, b'#').0, b'?');
    let (user, host) = ascii::rpartition(authority, b'@');
    let (host, port) = match host.first() {
        Some(b'[') => (host, None),
        _ => ascii::partition(host, b':'),
    };
    let unquoted = host.contains(&b'%').then(|| unquote(host));
    if unquoted.as_ref().map_or(false, |host| !host.is_ascii()) {
        return false;
    }
    for name in parent_domains(host) {
        push_encoded(tokens, &[b"url:", name]);
    }
    let path = path.unwrap_or_default();
    let is_message = |byte: u8| byte.is_ascii_alphanumeric();
    for word in ascii::runs(bytes::up_to(path, MAX_PATH_CHARACTERS), is_message) {
        if word.len() <= MAX_PATH_WORD_CHARACTERS {
            push_encoded(tokens, &[b"url.path:", word]);
        }
    }
    if scheme != b"http" {
        push_encoded(tokens, &[b"url.scheme:", scheme]);
    }
    if let Some(user) = user {
        push_encoded(
            tokens,
            &[b"url.user:", (user.len() / 8).to_string().as_bytes()],
        );
    }
    let port = port.unwrap_or_default();
    if !matches!(port, b"" | b"80" | b"443") {
        push_encoded(
            tokens,
            &[b"url.port:", bytes::up_to(port, MAX_PORT_CHARACTERS)],
        );
    }
    if let Some(host) = unquoted {
        push_encoded(tokens, &[b"url.host:escaped"]);
        for name in parent_domains(&host) {
            push_encoded(tokens, &[b"url:", name]);
        }
    }
    if is_ip_address(host) {
        push_encoded(tokens, &[b"url.host:address"]);
    }
    if query.is_some() || path.contains(&b'?') {
        push_encoded(tokens, &[b"url.query"]);
    }
    true
}

/// Returns `text` with its escapes (RFC 3986, section 2.1) decoded.
fn unquote(text: &[u8]) -> Vec<u8> {
    let digit = |place: usize| Some((*text.get(place)? as char).to_digit(16)? as u8);
    let mut unquoted = Vec::with_capacity(text.len());
    let mut place = 0;
    while let Some(byte) = text.get(place) {
        match (byte, digit(place + 1), digit(place + 2)) {
            (b'%', Some(high), Some(low)) => {
                unquoted.push(high << 4 | low);
                place += 3;
            }
            _ => {
                unquoted.push(*byte);
                place += 1;
            }
        }
    }
    unquoted
}

/// Returns whether a host is written as an address: IPv4 in any of its forms, or something in brackets.
fn is_ip_address(host: &[u8]) -> bool {
    let is_number = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
    let mut labels = host.split(|byte| *byte == b'.');
    let is_label = |label: &[u8]| (1..=3).contains(&label.len()) && is_number(label);
    if labels.clone().count() == 4 && labels.all(is_label) {
        return true;
    }
    let is_inside = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b':' | b'.');
    if let Some(address) = host
        .strip_prefix(b"[")
        .and_then(|rest| rest.strip_suffix(b"]"))
    {
        return !address.is_empty() && address.iter().all(is_inside);
    }
    if let Some(digits) = host.strip_prefix(b"0x") {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        return (2..=8).contains(&digits.len()) && digits.iter().all(is_digit);
    }
    (8..=10).contains(&host.len()) && is_number(host)
}

/// Returns the ASCII text `host` and its parent domains of at least two labels, or the prefixes of an IPv4 address.
///
/// Of a host with more than `MAX_HOST_CHARACTERS` characters whole labels at its end are read. A host that is longer
/// than a name may be, or that ends with a longer label, has no parent domains.
pub fn parent_domains(host: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (domains, count) = domains_of(ascii::strip(host, |character| character == b'.'));
    IntoIterator::into_iter(domains).take(count)
}

/// Returns at most three domains, and how many there are.
fn domains_of(mut host: &[u8]) -> ([&[u8]; 3], usize) {
    let mut domains: [&[u8]; 3] = [&[]; 3];
    if host.len() > MAX_HOST_CHARACTERS {
        if host.len() > MAX_NAME_CHARACTERS {
            return (domains, 0);
        }
        let end = &host[host.len() - MAX_HOST_CHARACTERS..];
        host = ascii::partition(end, b'.').1.unwrap_or(&[]);
        if !host.contains(&b'.') {
            return (domains, 0);
        }
    }
    let dots = host.iter().filter(|character| **character == b'.').count();
    let is_number = |label: &[u8]| !label.is_empty() && label.iter().all(u8::is_ascii_digit);
    if dots == 3 && host.split(|character| *character == b'.').all(is_number) {
        let mut prefix = host;
        for domain in &mut domains {
            *domain = prefix;
            prefix = ascii::rpartition(prefix, b'.').0.unwrap_or(&[]);
        }
        return (domains, 3);
    }
    // The last four labels, three and two; of a host that is one label, that label.
    for _ in 4..=dots {
        host = ascii::partition(host, b'.').1.unwrap_or(&[]);
    }
    let count = dots.clamp(1, 3);
    for domain in &mut domains[..count] {
        *domain = host;
        host = ascii::partition(host, b'.').1.unwrap_or(&[]);
    }
    (domains, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::NoAnswers;

    fn domains(host: &str) -> Vec<&str> {
        parent_domains(host.as_bytes())
            .map(|domain| std::str::from_utf8(domain).unwrap())
            .collect()
    }

    fn links(source: &str) -> Vec<String> {
        let found = find_links(source, MAX_RESOLVED_CHARACTERS, &mut References::new());
        let text = |link: &[u8]| String::from_utf8(link.to_vec()).unwrap();
        found.iter().map(text).collect()
    }

    fn tokens(link: &str) -> Vec<String> {
        let mut tokens = TokenList::new();
        push_link_tokens(&mut tokens, link.as_bytes(), &mut NoAnswers).unwrap();
        let text = |token: &[u8]| String::from_utf8(token.to_vec()).unwrap();
        tokens.iter().map(text).collect()
    }

    #[test]
    fn links_are_found_by_their_beginning() {
        assert_eq!(
            links("see (http://a.example/x) www.b.example, \"ftp://c\" http://www.d http://a.example/x)"),
            ["http://a.example/x)", "ftp://c", "http://www.d", "http://www.b.example,"]
        );
        assert_eq!(links("://://x ://"), ["://://x"]);
        assert_eq!(links("h&#116;tp://x"), ["http://x"]);
        assert_eq!(links("http://\u{e9}\u{a0}x"), ["http://\u{e9}"]);
    }

    #[test]
    fn of_many_links_the_first_and_the_last_are_read() {
        let text: String = (0..300)
            .map(|number| format!("http://{number}.example "))
            .collect();
        let found = links(&text);
        assert_eq!(found.len(), MAX_LINKS);
        assert_eq!(
            (found[49].as_str(), found[50].as_str()),
            ("http://49.example", "http://250.example")
        );
    }

    #[test]
    fn a_link_gives_host_path_and_what_is_unusual() {
        assert_eq!(
            tokens("https://user:pw@sub.example.org:8443/a%20b/to-page_1?q"),
            [
                "url:sub.example.org",
                "url:example.org",
                "url.path:a",
                "url.path:20b",
                "url.path:to",
                "url.path:page",
                "url.path:1",
                "url.path:q",
                "url.scheme:https",
                "url.user:0",
                "url.port:8443",
                "url.query",
            ]
        );
        assert_eq!(
            tokens("http://%65x.org"),
            ["url:%65x.org", "url.host:escaped", "url:ex.org"]
        );
        assert_eq!(
            tokens("http://3221225985/"),
            ["url:3221225985", "url.host:address"]
        );
        assert_eq!(
            tokens("http://[2001:db8::1]/"),
            ["url:[2001:db8::1]", "url.host:address"]
        );
    }

    #[test]
    fn a_host_has_parent_domains_of_two_labels_and_more() {
        assert_eq!(domains("example.org"), ["example.org"]);
        assert_eq!(domains(".a.example.org."), ["a.example.org", "example.org"]);
        assert_eq!(domains("e.d.c.b.a"), ["d.c.b.a", "c.b.a", "b.a"]);
        assert_eq!(domains("localhost"), ["localhost"]);
        assert_eq!(domains(""), [""]);
        assert_eq!(domains("a..b"), ["a..b", ".b"]);
    }

    #[test]
    fn an_address_has_prefixes() {
        assert_eq!(domains("192.0.2.1"), ["192.0.2.1", "192.0.2", "192.0"]);
        assert_eq!(domains("192.0.2.x"), ["192.0.2.x", "0.2.x", "2.x"]);
    }

    #[test]
    fn of_a_long_host_whole_labels_are_read() {
        let label = "x".repeat(60);
        let host = format!("{label}.{label}.org");
        assert_eq!(domains(&host), [format!("{label}.org")]);
        let host = format!("org.{}", "x".repeat(MAX_HOST_CHARACTERS));
        assert_eq!(domains(&host).len(), 0);
        assert_eq!(domains(&format!("{}org", "a.".repeat(126))).len(), 0);
    }
}
