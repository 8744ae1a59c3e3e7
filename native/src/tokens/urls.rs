//! Turns links into tokens: host, parent domains, pieces of the path, and what is unusual in the rest.

use crate::tokens::ascii;

/// How many characters at the end of a host are read.
pub const MAX_HOST_CHARACTERS: usize = 100;
/// How many characters a name may have (RFC 1035, section 2.3.4).
pub const MAX_NAME_CHARACTERS: usize = 253;

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

    fn domains(host: &str) -> Vec<&str> {
        parent_domains(host.as_bytes())
            .map(|domain| std::str::from_utf8(domain).unwrap())
            .collect()
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
