//! Turns header fields into tokens: who wrote, by which way, with which program, and how the fields are laid out.
//!
//! A field is left to Python where the tables do not have what its text needs.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::foreign::{Foreign, HandBack, Question};
use crate::mail::added_fields;
use crate::mail::bytes::{contains, up_to, without_line_ends};
use crate::mail::encoded_words;
use crate::mail::header_fields::HeaderField;
use crate::tokens::ascii::{self, is_space};
use crate::tokens::encoding::push_encoded;
use crate::tokens::lower_text::lower;
use crate::tokens::signatures::{is_arc_signature, signature_tokens};
use crate::tokens::token_list::TokenList;
use crate::tokens::unicode;
use crate::tokens::urls::parent_domains;
use crate::tokens::words::{
    distinct_words, fold_text, short_ascii_words, text_shape, WordAllowance,
};

/// How many bytes of a value are read.
pub const MAX_VALUE_BYTES: usize = 2000;
/// How many fields are read.
pub const MAX_FIELDS: usize = 100;

const MAX_NAME_BYTES_READ: usize = 80;
/// Of a header with more fields, the spelling of names is read in all of them.
const MAX_FIELDS_OF_SHORT_HEADER: usize = 50;
/// Fields whose absence is a token.
const EXPECTED_FIELDS: [&[u8]; 9] = [
    b"date",
    b"from",
    b"to",
    b"subject",
    b"message-id",
    b"mime-version",
    b"content-type",
    b"received",
    b"reply-to",
];

/// Returns whether another filter or a mailbox writes fields of this name (lower case), as `mail/added_fields.py` says.
pub fn is_added_on_arrival(name: &[u8]) -> bool {
    (0..name.len()).any(|at| added_fields::begins_with_filter_word(&name[at..]))
        || match name.strip_prefix(b"x-") {
            Some(rest) => {
                (added_fields::X_PREFIXES.iter()).any(|prefix| rest.starts_with(prefix))
                    || added_fields::is_mailbox_name(rest)
                    || rest.starts_with(b"authentication-")
                    || contains(rest, b"-authentication-")
            }
            None => {
                added_fields::is_mailbox_name(name)
                    || added_fields::is_arrival_name(name)
                    || name.starts_with(b"arc-")
            }
        }
}

/// Returns the fields among the first `MAX_FIELDS` that were not added on arrival.
pub fn sender_fields<'f, 'a>(fields: &'f [HeaderField<'a>]) -> Vec<&'f HeaderField<'a>> {
    let read = &fields[..MAX_FIELDS.min(fields.len())];
    read.iter()
        .filter(|field| !is_added_on_arrival(up_to(&field.name, MAX_NAME_BYTES_READ)))
        .collect()
}

/// Appends the tokens of the header fields of a message, without those that were added on arrival, to `tokens`, a
/// list of distinct tokens. `sender_fields` are those of `fields`.
///
/// Returns `HandBack` where Python has no answer for a field whose text is not ASCII.
pub fn header_tokens(
    fields: &[HeaderField],
    sender_fields: &[&HeaderField],
    foreign: &mut dyn Foreign,
    tokens: &mut TokenList,
) -> Result<(), HandBack> {
    layout_tokens(fields, sender_fields, tokens);
    for field in &fields[..MAX_FIELDS.min(fields.len())] {
        // The layout is without them: a server that adds them after the check would change it for the lesson.
        if is_arc_signature(&field.name) {
            field_tokens(field, foreign, tokens)?;
        }
    }
    let mut hops = 0;
    for field in sender_fields {
        if &*field.name == b"received" {
            hops += 1;
            if hops <= 5 {
                field_tokens(field, foreign, tokens)?;
            }
        } else if !is_presence_only(&field.name) {
            field_tokens(field, foreign, tokens)?;
        }
    }
    tokens.push(&[b"received:", &[digit(hops)]]);
    relation_tokens(sender_fields, foreign, tokens)
}

/// Fields whose presence says enough.
fn is_presence_only(name: &[u8]) -> bool {
    matches!(
        name,
        b"content-type"
            | b"references"
            | b"in-reply-to"
            | b"thread-index"
            | b"list-post"
            | b"list-help"
            | b"list-subscribe"
            | b"list-unsubscribe"
            | b"list-archive"
            | b"list-owner"
    )
}

/// Returns the digit of `number`, at most 9.
fn digit(number: usize) -> u8 {
    b'0' + number.min(9) as u8
}

/// Appends the tokens of one field to `tokens`, a list of distinct tokens.
fn field_tokens(
    field: &HeaderField,
    foreign: &mut dyn Foreign,
    tokens: &mut TokenList,
) -> Result<(), HandBack> {
    // Where a text turns out to be beyond the tables, its first tokens are in the list already. They are the first
    // ones of the answer too.
    if native_field_tokens(field, foreign, tokens).is_none() {
        let answer = foreign.ask(Question::FieldTokens, &[&field.name, &field.value])?;
        answer
            .iter()
            .for_each(|token| push_encoded(tokens, &[token]));
    }
    Ok(())
}

/// Appends the tokens of one field; None where Python must make them.
fn native_field_tokens(
    field: &HeaderField,
    foreign: &mut dyn Foreign,
    tokens: &mut TokenList,
) -> Option<()> {
    let name: &[u8] = &field.name;
    let text = field_text(&field.value)?;
    let ascii_text = text.is_ascii().then(|| text.as_bytes());
    match name {
        b"from" | b"reply-to" | b"return-path" | b"sender" | b"errors-to" | b"to" | b"cc"
        | b"resent-from" => address_tokens(name, &text, tokens)?,
        b"subject" => subject_tokens(name, &text, foreign, tokens)?,
        b"received" => received_tokens(ascii_text?, tokens),
        b"message-id" => message_id_tokens(name, ascii_text?, tokens),
        b"date" => date_tokens(name, ascii_text?, tokens),
        b"x-mailer" | b"user-agent" => program_tokens(name, ascii_text?, tokens),
        b"dkim-signature" | b"domainkey-signature" | b"arc-seal" | b"arc-message-signature" => {
            signature_tokens(name, ascii_text?, tokens)
        }
        _ => other_tokens(name, &text, tokens)?,
    }
    Some(())
}

/// Returns the text of the raw value of a field; None where Python must read it: `_field_text`.
fn field_text(value: &[u8]) -> Option<Cow<'_, str>> {
    let read = up_to(value, MAX_VALUE_BYTES);
    if !read.is_ascii() || contains(read, b"=?") {
        let text = encoded_words::decode_encoded_words(value)?;
        let end = unicode::offset_of(&text, MAX_VALUE_BYTES);
        return unicode::is_known_text(&text[..end]).then(|| match text {
            Cow::Borrowed(text) => Cow::Borrowed(&text[..end]),
            Cow::Owned(mut text) => {
                text.truncate(end);
                Cow::Owned(text)
            }
        });
    }
    match without_line_ends(read) {
        Cow::Borrowed(text) => std::str::from_utf8(text).ok().map(Cow::Borrowed),
        Cow::Owned(text) => String::from_utf8(text).ok().map(Cow::Owned),
    }
}

/// Returns the first `count` characters of `text`.
fn first_characters(text: &str, count: usize) -> &str {
    &text[..unicode::offset_of(text, count)]
}

/// Appends tokens for the fields that are present, the spelling and order of names, and missing fields.
fn layout_tokens(fields: &[HeaderField], sender_fields: &[&HeaderField], tokens: &mut TokenList) {
    for name in EXPECTED_FIELDS {
        if !sender_fields.iter().any(|field| &*field.name == name) {
            push_encoded(tokens, &[b"absent:", name]);
        }
    }
    let push_spelling = |tokens: &mut TokenList, written: &[u8]| {
        if written.len() <= 60 {
            push_encoded(tokens, &[b"field:", written]);
        }
    };
    if fields.len() <= MAX_FIELDS_OF_SHORT_HEADER {
        for field in sender_fields {
            push_spelling(tokens, &field.name_as_written);
        }
    } else {
        let present: HashSet<&[u8]> = sender_fields.iter().map(|field| &*field.name).collect();
        for field in fields.iter().filter(|field| present.contains(&*field.name)) {
            push_spelling(tokens, &field.name_as_written);
        }
    }
    let mut before: Option<&[u8]> = None;
    for field in sender_fields
        .iter()
        .filter(|field| &*field.name != b"received")
    {
        if let Some(first) = before {
            push_encoded(tokens, &[b"order:", first, b">", &field.name]);
        }
        before = Some(&field.name);
    }
}

/// Appends tokens for addresses, their domains and local parts, and the words of display names; None where Python
/// must make them.
fn address_tokens(name: &[u8], text: &str, tokens: &mut TokenList) -> Option<()> {
    let mut limited = Limited::new(tokens, 60);
    let mut addresses = 0;
    let mut rest = text;
    while let Some(start) = rest.find(is_address_character) {
        let (local, behind) = address_run(&rest[start..]);
        let (domain, behind_domain) = match behind.strip_prefix('@') {
            Some(domain) => address_run(domain),
            None => ("", behind),
        };
        if domain.is_empty() {
            let folded = fold_text(local)?;
            limited.push(&[name, b".name:", first_characters(&folded, 40).as_bytes()]);
            rest = behind;
            continue;
        }
        if !local.is_ascii() || !domain.is_ascii() {
            return None;
        }
        rest = behind_domain;
        addresses += 1;
        if addresses <= 5 {
            let (local, domain) = (local.to_ascii_lowercase(), domain.to_ascii_lowercase());
            let (local, domain) = (local.as_bytes(), domain.as_bytes());
            limited.push_cut(60, &[name, b":", local, b"@", domain]);
            parent_domains(domain).for_each(|host| limited.push(&[name, b":", host]));
            limited.push(&[name, b".local:", &text_shape(local, 24)]);
        }
        if limited.is_full() {
            return Some(());
        }
    }
    limited.push(&[name, b".addresses:", &[digit(addresses)]]);
    limited.push(&[name, b".shape:", address_list_outline(text).as_bytes()]);
    Some(())
}

/// Returns the characters of an address or a word at the beginning of `text`, and what follows them.
fn address_run(text: &str) -> (&str, &str) {
    let end = text.find(|character| !is_address_character(character));
    text.split_at(end.unwrap_or(text.len()))
}

fn is_address_character(character: char) -> bool {
    is_value_character(character) && !matches!(character, ':' | '@') || character == '\''
}

/// Returns whether the character belongs to a word of a value: `_FIELD_WORD`.
fn is_value_character(character: char) -> bool {
    const MARKS: [char; 10] = ['<', '>', '(', ')', '[', ']', ',', ';', '"', '\''];
    !unicode::is_space(character) && !MARKS.contains(&character)
}

/// Returns the words of a value in lower case, which is `text`.
fn value_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character| !is_value_character(character))
        .filter(|word| !word.is_empty())
}

/// Returns the beginning of an address list with each name and each address replaced by "a".
fn address_list_outline(text: &str) -> String {
    let mut outline = String::with_capacity(24);
    let mut is_in_name = false;
    for character in text.chars().take(100) {
        let is_name = unicode::is_word(character) || matches!(character, '.' | '+' | '=' | '-');
        if !(is_name && is_in_name) {
            outline.push(if is_name { 'a' } else { character });
        }
        is_in_name = is_name;
    }
    outline.truncate(unicode::offset_of(&outline, 24));
    outline
}

/// Appends tokens for the words of the subject, made like those of the body, and for how it is written; None where
/// Python must make them.
fn subject_tokens(
    name: &[u8],
    text: &str,
    foreign: &mut dyn Foreign,
    tokens: &mut TokenList,
) -> Option<()> {
    if text.is_ascii() {
        short_ascii_words(text.to_ascii_lowercase().as_bytes(), |word| match word {
            [word] => push_encoded(tokens, &[name, b":", word]),
            _ => push_encoded(tokens, &[name, b":", &word.concat()]),
        });
    } else {
        let words =
            distinct_words(text, b"", usize::MAX, &mut WordAllowance::new(), foreign).ok()?;
        words
            .iter()
            .for_each(|word| push_encoded(tokens, &[name, b":", word]));
    }
    if is_upper(text)? {
        push_encoded(tokens, &[name, b".capitals"]);
    }
    if text.contains("  ") {
        push_encoded(tokens, &[name, b".spaces"]);
    }
    let is_mark = |character: &char| *character == '_' || !unicode::is_word(*character);
    if let Some(last) = text.chars().last().filter(is_mark) {
        let mark = last.to_string();
        push_encoded(tokens, &[name, b".end:", mark.as_bytes()]);
    }
    let length = ascii::bit_length(unicode::length(text)).to_string();
    push_encoded(tokens, &[name, b".length:", length.as_bytes()]);
    Some(())
}

/// Returns whether there are capitals and no other letters that have a case: `str.isupper`. None where Python must say
/// that: what Rust says of letters beyond ASCII depends on its version.
fn is_upper(text: &str) -> Option<bool> {
    if text.chars().any(is_small_letter) {
        Some(false)
    } else if text.is_ascii() {
        Some(text.chars().any(|character| character.is_ascii_uppercase()))
    } else {
        None
    }
}

/// Returns whether the character is a small letter of a frequent alphabet.
fn is_small_letter(character: char) -> bool {
    character.is_ascii_lowercase()
        || matches!(character, '\u{df}'..='\u{f6}' | '\u{f8}'..='\u{ff}' | '\u{3b1}'..='\u{3c9}'
            | '\u{430}'..='\u{44f}')
}

/// Appends tokens for hosts, addresses, protocol and server program of one Received field.
fn received_tokens(text: &[u8], tokens: &mut TokenList) {
    let lower = ascii::partition(text, b';').0.to_ascii_lowercase();
    let mut limited = Limited::new(tokens, 30);
    let mut hosts: Vec<&[u8]> = Vec::new();
    let is_host = |character| ascii::is_word(character) || matches!(character, b'.' | b'-');
    for host in ascii::runs(&lower, is_host).filter(|host| host.contains(&b'.')) {
        if limited.is_full() {
            return;
        }
        if !hosts.contains(&host) {
            hosts.push(host);
            parent_domains(host).for_each(|domain| limited.push(&[b"received:", domain]));
        }
    }
}

/// Appends tokens for the outline of the local part, and for the domain.
fn message_id_tokens(name: &[u8], text: &[u8], tokens: &mut TokenList) {
    let stripped = ascii::strip(text, |character| matches!(character, b'<' | b'>' | b' '));
    let (local, domain) = ascii::rpartition(stripped, b'@');
    push_encoded(tokens, &[name, b":", &text_shape(local.unwrap_or(&[]), 24)]);
    for host in parent_domains(&domain.to_ascii_lowercase()) {
        push_encoded(tokens, &[name, b":", host]);
    }
}

/// Appends tokens for the time zone and the outline of the date.
fn date_tokens(name: &[u8], text: &[u8], tokens: &mut TokenList) {
    push_encoded(tokens, &[name, b":", zone(text)]);
    push_encoded(tokens, &[name, b".shape:", &text_shape(text, 40)]);
}

/// Returns the time zone at the end of a date.
fn zone(text: &[u8]) -> &[u8] {
    let end = last(text, 5);
    if is_zone_offset(end) {
        return end;
    }
    let end = last(text, 40);
    match (0..end.len()).find(|start| is_zone(&end[*start..])) {
        Some(start) => ascii::strip(&end[start..], is_space),
        None => b"none",
    }
}

fn last(text: &[u8], count: usize) -> &[u8] {
    &text[text.len().saturating_sub(count)..]
}

fn is_zone_offset(text: &[u8]) -> bool {
    text.len() == 5 && matches!(text[0], b'+' | b'-') && text[1..].iter().all(u8::is_ascii_digit)
}

/// Returns whether all of `text` is a zone, perhaps with a comment, and white space: `_ZONE`.
fn is_zone(text: &[u8]) -> bool {
    let capitals = text.iter().take_while(|c| c.is_ascii_uppercase()).count();
    let end = match capitals {
        0 if text.len() >= 5 && is_zone_offset(&text[..5]) => 5,
        1..=5 => capitals,
        _ => return false,
    };
    let behind = strip_start(&text[end..]);
    let comment_end = behind
        .strip_prefix(b"(")
        .and_then(|comment| comment.iter().position(|c| *c == b')'))
        .filter(|size| *size <= 20);
    let behind = comment_end.map_or(behind, |size| strip_start(&behind[size + 2..]));
    behind.is_empty()
}

fn strip_start(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|character| !is_space(*character));
    &text[start.unwrap_or(text.len())..]
}

/// Appends tokens for the program that wrote the message, as a whole and word by word.
fn program_tokens(name: &[u8], text: &[u8], tokens: &mut TokenList) {
    let lower = text.to_ascii_lowercase();
    let is_inside = |character| is_value_character(char::from(character));
    let words: Vec<&[u8]> = ascii::runs(&lower, is_inside).take(10).collect();
    push_encoded(tokens, &[name, b":", &text_shape(text, 40)]);
    push_encoded(tokens, &[name, b":", up_to(&words.join(&b'_'), 50)]);
    for word in words {
        push_encoded(tokens, &[name, b":", up_to(word, 40)]);
    }
}

/// Appends tokens for the first words of any other field, whose prefix is never that of another group; None where
/// Python must make them.
fn other_tokens(name: &[u8], text: &str, tokens: &mut TokenList) -> Option<()> {
    let is_reserved = matches!(name, b"body" | b"raw" | b"autolearn") || name.starts_with(b"url");
    let prefix: [&[u8]; 2] = if is_reserved {
        [b"field-", up_to(name, 18)]
    } else {
        [b"", up_to(name, 24)]
    };
    for word in value_words(&lower(text)?).take(10) {
        let word = first_characters(word, 36).as_bytes();
        push_encoded(tokens, &[prefix[0], prefix[1], b":", word]);
    }
    Some(())
}

/// Appends tokens for whether the senders agree and whether a reply refers to a message.
fn relation_tokens(
    sender_fields: &[&HeaderField],
    foreign: &mut dyn Foreign,
    tokens: &mut TokenList,
) -> Result<(), HandBack> {
    let first = |name: &&[u8]| {
        let mut found = sender_fields.iter().copied();
        found.find(|field| &*field.name == *name)
    };
    let related: Vec<&HeaderField> = RELATED_FIELDS.iter().filter_map(first).collect();
    let references: Vec<&HeaderField> = REFERENCE_FIELDS.iter().filter_map(first).collect();
    if native_relation_tokens(&related, !references.is_empty(), tokens).is_none() {
        let asked = related.iter().chain(&references);
        let arguments: Vec<&[u8]> = asked
            .flat_map(|field| [&*field.name, &*field.value])
            .collect();
        let answer = foreign.ask(Question::RelationTokens, &arguments)?;
        answer
            .iter()
            .for_each(|token| push_encoded(tokens, &[token]));
    }
    Ok(())
}

fn native_relation_tokens(
    related: &[&HeaderField],
    has_references: bool,
    tokens: &mut TokenList,
) -> Option<()> {
    let mut sender = String::new();
    for field in related {
        let text = field_text(&field.value)?;
        match &*field.name {
            b"from" => sender = organizational_domain(&text)?,
            b"subject" => {
                if first_characters(&text, 3).eq_ignore_ascii_case("re:") {
                    push_encoded(tokens, &[b"reply:", truth(has_references)]);
                }
            }
            name => {
                let is_same = organizational_domain(&text)? == sender;
                push_encoded(tokens, &[b"same-domain:", name, b":", truth(is_same)]);
            }
        }
    }
    Some(())
}

/// The fields that `relation_tokens` reads, in the order of its tokens.
const RELATED_FIELDS: [&[u8]; 5] = [
    b"from",
    b"reply-to",
    b"return-path",
    b"message-id",
    b"subject",
];
/// The fields whose presence it looks at.
const REFERENCE_FIELDS: [&[u8]; 2] = [b"references", b"in-reply-to"];

fn truth(value: bool) -> &'static [u8] {
    if value {
        b"True"
    } else {
        b"False"
    }
}

/// Returns the last two labels of the domain of the last address in `text`; None where that is not ASCII.
fn organizational_domain(text: &str) -> Option<String> {
    let domain = text.rsplit('@').next().filter(|domain| domain.is_ascii())?;
    let is_host = |character: char| character.is_ascii_alphanumeric() || "_.-".contains(character);
    let end = domain.find(|character| !is_host(character));
    let host = domain[..end.unwrap_or(domain.len())].trim_matches('.');
    let start = host
        .rmatch_indices('.')
        .nth(1)
        .map_or(0, |(dot, _)| dot + 1);
    Some(host[start..].to_ascii_lowercase())
}

/// Appends tokens until there are so many; equal ones count too.
struct Limited<'a> {
    tokens: &'a mut TokenList,
    left: usize,
}

impl<'a> Limited<'a> {
    fn new(tokens: &'a mut TokenList, limit: usize) -> Self {
        Self {
            tokens,
            left: limit,
        }
    }

    fn is_full(&self) -> bool {
        self.left == 0
    }

    fn push(&mut self, pieces: &[&[u8]]) {
        if self.left > 0 {
            self.left -= 1;
            push_encoded(self.tokens, pieces);
        }
    }

    /// Appends the first `limit` characters of a token.
    fn push_cut(&mut self, limit: usize, pieces: &[&[u8]]) {
        self.push(&[up_to(&pieces.concat(), limit)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers each question with the question itself.
    struct Echo;

    impl Foreign for Echo {
        fn ask(
            &mut self,
            question: Question,
            arguments: &[&[u8]],
        ) -> Result<Vec<Vec<u8>>, HandBack> {
            let names = arguments.iter().step_by(2).copied();
            let asked: Vec<&[u8]> = names.collect();
            Ok(vec![
                format!("{:?}", question).into_bytes(),
                asked.join(&b'+'),
            ])
        }
    }

    fn field(written: &str, value: &str) -> HeaderField<'static> {
        HeaderField {
            name: Cow::Owned(written.to_ascii_lowercase().into_bytes()),
            value: Cow::Owned(value.as_bytes().to_vec()),
            name_as_written: Cow::Owned(written.as_bytes().to_vec()),
        }
    }

    fn all_tokens(fields: &[HeaderField]) -> Vec<String> {
        let mut tokens = TokenList::distinct();
        header_tokens(fields, &sender_fields(fields), &mut Echo, &mut tokens).unwrap();
        let text = |token: &[u8]| String::from_utf8(token.to_vec()).unwrap();
        tokens.iter().map(text).collect()
    }

    /// Returns the tokens of one field, without those of the layout and of all fields together.
    fn tokens_of(written: &str, value: &str) -> Vec<String> {
        let prefix = format!("{}:", written.to_ascii_lowercase());
        let aspect = prefix.replace(':', ".");
        let mut tokens = all_tokens(&[field(written, value)]);
        tokens.retain(|token| {
            (token.starts_with(&prefix) || token.starts_with(&aspect)) && token != "received:1"
        });
        tokens
    }

    #[test]
    fn fields_of_filters_and_mailboxes_are_known_by_their_names() {
        for name in [
            "x-my-spamfilter",
            "x-uuid-1",
            "x-sa-exim",
            "status",
            "x-status",
            "uid",
            "x-uidl",
            "arc-seal",
            "received-spf",
            "x-authentication-warning",
            "x-a-authentication-b",
            "folder",
        ] {
            assert!(is_added_on_arrival(name.as_bytes()), "{}", name);
        }
        for name in [
            "x-sa",
            "xx-status",
            "x-arc-seal",
            "uidx",
            "x-delivered-to",
            "x-aauthentication-b",
            "authentication-x",
            "x-authentication",
            "from",
            "x-mailer",
            "",
        ] {
            assert!(!is_added_on_arrival(name.as_bytes()), "{}", name);
        }
    }

    #[test]
    fn the_layout_names_fields_their_order_and_what_is_absent() {
        let fields = [field("From", "a"), field("Received", "x"), field("X-Y", "")];
        let tokens = all_tokens(&fields);
        assert_eq!(tokens[0], "absent:date");
        for token in ["field:From", "field:X-Y", "order:from>x-y", "received:1"] {
            assert!(tokens.iter().any(|other| other == token), "{}", token);
        }
        assert!(!tokens.iter().any(|token| token == "absent:from"));
    }

    #[test]
    fn an_address_gives_its_domains_and_a_name_its_words() {
        assert_eq!(
            tokens_of("From", "\"Jo\" <J.d9@a.example.org>"),
            [
                "from.name:jo",
                "from:j.d9@a.example.org",
                "from:a.example.org",
                "from:example.org",
                "from.local:a.a9",
                "from.addresses:1",
                "from.shape:\"a\"_<a@a>",
            ]
        );
        assert_eq!(
            tokens_of("Cc", "a@b@c@"),
            [
                "cc:a@b",
                "cc:b",
                "cc.local:a",
                "cc.name:c",
                "cc.addresses:1",
                "cc.shape:a@a@a@"
            ]
        );
    }

    #[test]
    fn a_list_of_addresses_gives_sixty_tokens_at_most() {
        let words: Vec<String> = (0..100).map(|number| format!("w{}", number)).collect();
        assert_eq!(tokens_of("To", &words.join(" ")).len(), 60);
        assert_eq!(tokens_of("Received", &words.join(".x ")).len(), 30);
        assert_eq!(tokens_of("X-Other", &words.join(" ")).len(), 10);
    }

    #[test]
    fn a_subject_is_its_words_and_how_it_is_written() {
        assert_eq!(
            tokens_of("Subject", "BUY  NOW!?"),
            [
                "subject:buy",
                "subject:now!",
                "subject.capitals",
                "subject.spaces",
                "subject.end:?",
                "subject.length:4",
            ]
        );
    }

    #[test]
    fn a_zone_is_an_offset_or_a_name_with_a_comment() {
        for (date, wanted) in [
            ("Mon, 1 Jan 2007 10:00:00 +0200", "+0200"),
            ("10:00:00 +0200 (CEST)", "+0200 (CEST)"),
            ("10:00:00 GMT \t", "GMT"),
            ("10:00 ABCDEFG", "CDEFG"),
            ("GMT (a) b", "none"),
            ("+0200 (more than twenty characters)", "none"),
            ("x +02000", "none"),
            ("", "none"),
        ] {
            assert_eq!(zone(date.as_bytes()), wanted.as_bytes(), "{}", date);
        }
    }

    #[test]
    fn the_prefix_of_a_field_is_never_that_of_another_group() {
        assert_eq!(all_tokens(&[field("URL", "X")])[10], "field-url:x");
        assert_eq!(all_tokens(&[field("Body", "X")])[10], "field-body:x");
    }

    #[test]
    fn what_the_tables_do_not_have_is_left_to_python() {
        let fields = [
            field("To", "\u{1f6dc}"),
            field("From", "<a@b.\u{e9}>"),
            field("Date", "\u{e9}"),
        ];
        let tokens = all_tokens(&fields);
        for token in ["FieldTokens", "to", "from", "date", "RelationTokens"] {
            assert!(tokens.iter().any(|other| other == token), "{}", token);
        }
    }

    #[test]
    fn text_beyond_ascii_is_read_here() {
        assert_eq!(
            tokens_of("From", "\u{c9}va \u{ff21} <a@b>"),
            [
                "from.name:\u{e9}va",
                "from.name:a",
                "from:a@b",
                "from:b",
                "from.local:a",
                "from.addresses:1",
                "from.shape:a_a_<a@a>",
            ]
        );
        assert_eq!(
            tokens_of("Subject", "=?utf-8?q?=C3=89t=C3=A9=C2=BB?="),
            [
                "subject:\u{e9}t\u{e9}",
                "subject.end:\u{bb}",
                "subject.length:3"
            ]
        );
        assert_eq!(tokens_of("X-O", "\u{c9}\u{a0}A"), ["x-o:\u{e9}", "x-o:a"]);
    }

    #[test]
    fn senders_agree_by_their_last_two_labels() {
        let fields = [
            field("From", "<a@b.Example.org>"),
            field("Reply-To", "x@c.example.org."),
            field("Return-Path", "<>"),
            field("Subject", "RE: x"),
            field("References", "<x>"),
        ];
        let tokens = all_tokens(&fields);
        assert_eq!(
            tokens[tokens.len() - 3..],
            [
                "same-domain:reply-to:True",
                "same-domain:return-path:False",
                "reply:True"
            ]
        );
    }
}
