//! Turns the fields of signatures into tokens: the domain that signed and its selector.

use crate::mail::bytes::up_to;
use crate::tokens::ascii::{self, is_space};
use crate::tokens::encoding::push_encoded;
use crate::tokens::token_list::TokenList;
use crate::tokens::urls::parent_domains;

/// How many tags of a field are read at most.
pub const MAX_TAGS: usize = 40;

/// Returns whether fields of this name (lower case) are signatures of servers on the way: `ARC_SIGNATURES`.
pub fn is_arc_signature(name: &[u8]) -> bool {
    matches!(name, b"arc-seal" | b"arc-message-signature")
}

/// Appends tokens for domain and selector of the signature field `name` (lower case) with the value `text`, which is
/// ASCII. What is no domain name gives no token.
pub fn signature_tokens(name: &[u8], text: &[u8], tokens: &mut TokenList) {
    let (domain, selector) = (domain_name(tag(text, b"d")), domain_name(tag(text, b"s")));
    if !domain.is_empty() {
        for host in parent_domains(&domain) {
            push_encoded(tokens, &[name, b":", host]);
        }
    }
    if !selector.is_empty() {
        push_encoded(tokens, &[name, b".selector:", up_to(&selector, 30)]);
    }
}

/// Returns the value of the first tag of this name among the first `MAX_TAGS`; empty without one.
fn tag<'a>(text: &'a [u8], wanted: &[u8]) -> &'a [u8] {
    text.split(|character| *character == b';')
        .take(MAX_TAGS)
        .find_map(|tag| match ascii::partition(tag, b'=') {
            (name, Some(value)) if ascii::strip(name, is_space) == wanted => Some(value),
            _ => None,
        })
        .unwrap_or(&[])
}

/// Returns `value` in lower case without white space, which may stand anywhere; empty if it is no name.
fn domain_name(value: &[u8]) -> Vec<u8> {
    let mut name = up_to(value, 300).to_ascii_lowercase();
    name.retain(|character| !is_space(*character));
    let name = ascii::strip(&name, |character| character == b'.');
    let is_label_character = |character: &u8| ascii::is_word(*character) || *character == b'-';
    let mut labels = name.split(|character| *character == b'.');
    if labels.all(|label| !label.is_empty() && label.iter().all(is_label_character)) {
        name.to_vec()
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens_of(text: &[u8]) -> Vec<u8> {
        let mut tokens = TokenList::new();
        signature_tokens(b"dkim-signature", text, &mut tokens);
        tokens.lines(usize::MAX).to_vec()
    }

    #[test]
    fn domain_and_selector_are_read() {
        assert_eq!(
            tokens_of(b"v=1; d = a.Example .org; s=x\t1; d=b.org"),
            b"dkim-signature:a.example.org\ndkim-signature:example.org\ndkim-signature.selector:x1\n"
        );
    }

    #[test]
    fn what_is_no_name_gives_no_token() {
        assert_eq!(tokens_of(b"d=a..org; s=a!b"), b"");
        assert_eq!(tokens_of(b"d; s="), b"");
    }
}
