// Written by `python -m tools.native_tables`.

//! The names of header fields that are added on arrival: see `mail/added_fields.py`.

/// Returns whether `rest`, which is not empty, begins with a word that is in names of filters alone.
pub fn begins_with_filter_word(rest: &[u8]) -> bool {
    match rest[0] {
        b'a' => rest.starts_with(b"antiabuse"),
        b'b' => rest.starts_with(b"bogosity"),
        b'g' => rest.starts_with(b"greylist"),
        b's' => rest.starts_with(b"scanner") || rest.starts_with(b"spam"),
        b'v' => rest.starts_with(b"virus"),
        _ => false,
    }
}

/// What the name of such a field begins with, after `x-`.
pub const X_PREFIXES: [&[u8]; 31] = [
    b"barracuda",
    b"uuid",
    b"rspamd",
    b"nbstream",
    b"miltered",
    b"dspam",
    b"crm114",
    b"amavis",
    b"quarantine",
    b"ms-exchange-organization",
    b"forefront",
    b"microsoft-antispam",
    b"sa-",
    b"proofpoint",
    b"mozilla-",
    b"envelope-",
    b"rcpt-",
    b"gmail-",
    b"ironport",
    b"pmx-",
    b"sieve",
    b"evolution",
    b"delivery-agent",
    b"junk",
    b"dcc-",
    b"razor",
    b"pyzor",
    b"scan",
    b"filter",
    b"content-filter",
    b"policyd",
];

/// Returns whether this is a field of a mailbox, with or without `x-`.
pub fn is_mailbox_name(name: &[u8]) -> bool {
    matches!(
        name,
        b"status"
            | b"keywords"
            | b"label"
            | b"original-to"
            | b"apparently-to"
            | b"uid"
            | b"uidl"
            | b"imap"
            | b"imapbase"
            | b"folder"
    )
}

/// Returns whether this is a field of the server of the recipient.
pub fn is_arrival_name(name: &[u8]) -> bool {
    matches!(
        name,
        b"delivered-to"
            | b"delivery-date"
            | b"content-length"
            | b"lines"
            | b"envelope-to"
            | b"received-spf"
            | b"authentication-results"
    )
}
