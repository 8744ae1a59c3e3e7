//! Groups of tokens by their prefix. See `nbstream/tokens/token_groups.py`.

/// How many groups of the head are looked at to see whether a message is new.
pub const NOVELTY_GROUPS: usize = 4;

const STRUCTURE: usize = 0;
const SENDER: usize = 1;
const FORM: usize = 2;
const LAYOUT: usize = 3;
const FORM_ASPECTS: [&[u8]; 7] = [
    b"shape",
    b"local",
    b"addresses",
    b"length",
    b"end",
    b"capitals",
    b"spaces",
];

/// Returns the number of the group of a token of the head; nothing for a token of no group.
pub fn novelty_group(token: &[u8]) -> Option<usize> {
    let end = token.iter().position(|&byte| byte == b':');
    let prefix = &token[..end.unwrap_or(token.len())];
    match prefix {
        b"tree" | b"parts" | b"kind" | b"type" | b"charset" | b"encoding" | b"disposition"
        | b"file.shape" | b"file.type" | b"content-type" | b"boundary" | b"size" | b"hidden" => {
            Some(STRUCTURE)
        }
        b"from"
        | b"reply-to"
        | b"sender"
        | b"return-path"
        | b"received"
        | b"message-id"
        | b"dkim-signature"
        | b"domainkey-signature"
        | b"list-id" => Some(SENDER),
        b"date" | b"same-domain" | b"reply" => Some(FORM),
        b"field" | b"order" | b"absent" => Some(LAYOUT),
        _ => {
            let dot = prefix.iter().rposition(|&byte| byte == b'.')?;
            FORM_ASPECTS.contains(&&prefix[dot + 1..]).then_some(FORM)
        }
    }
}

/// Returns what the name of the private token for `token` begins with: the prefix of a token of the same group.
pub fn private_prefix(token: &[u8]) -> &'static [u8] {
    let begins = |prefix: &[u8]| token.starts_with(prefix);
    if begins(b"raw:") {
        return b"raw:#";
    }
    if begins(b"body:") {
        return b"body:#";
    }
    if begins(b"url:") || begins(b"url.") {
        return b"url:#";
    }
    match novelty_group(token) {
        Some(STRUCTURE) => b"type:#",
        Some(SENDER) => b"from:#",
        Some(FORM) => b"date:#",
        Some(_) => b"field:#",
        None if begins(b"subject:") => b"subject:#",
        None => b"head:#",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_name_is_of_the_group_of_its_token() {
        for token in [
            b"type:text/html" as &[u8],
            b"received:mx.example",
            b"to.shape:a",
            b"subject.end:!",
            b"order:to>from",
            b"subject:lunch",
            b"x-mailer:mutt",
        ] {
            assert_eq!(novelty_group(private_prefix(token)), novelty_group(token));
        }
    }

    #[test]
    fn a_token_without_a_colon_is_all_prefix() {
        assert_eq!(novelty_group(b"subject.capitals"), Some(FORM));
        assert_eq!(novelty_group(b"nothing"), None);
    }
}
