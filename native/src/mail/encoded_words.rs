//! Encoded words in header fields (RFC 2047): see `nbstream/mail/encoded_words.py`.

use std::borrow::Cow;

use super::bytes::{contains, find_from, is_space, strip, up_to, without_line_ends};
use super::charsets;
use super::transfer_encodings::{decode_base64, decode_quoted_printable};

const MAX_CHARSET_BYTES: usize = 64;

/// The beginning of an encoded word: "=?charset?q?".
struct Beginning<'a> {
    start: usize,
    end: usize,
    charset: &'a [u8],
    is_base64: bool,
}

/// Returns the raw value of a header field as text, where that is ASCII: unfolded, with its encoded words decoded.
pub fn ascii_text(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    if !value.is_ascii() {
        return None;
    }
    match decode_encoded_words(value)? {
        Cow::Borrowed(text) => Some(Cow::Borrowed(text.as_bytes())),
        Cow::Owned(text) => text.is_ascii().then(|| Cow::Owned(text.into_bytes())),
    }
}

/// Returns the raw value of a header field as text: unfolded, with its encoded words decoded (RFC 2047).
///
/// It is None where Python must decode a piece of it.
pub fn decode_encoded_words(value: &[u8]) -> Option<Cow<'_, str>> {
    let unfolded = unfold(value);
    if !contains(&unfolded, b"=?") {
        return decode_unlabelled(unfolded);
    }
    let joined = without_space_between_words(&unfolded);
    let mut text = String::with_capacity(joined.len());
    let mut neighbours = Neighbours::default();
    let mut position = 0;
    let mut next = find_beginning(&joined, 0);
    while let Some(word) = next {
        let end = match find_text_end(&joined, word.end) {
            Some(end) => end,
            None => break,
        };
        if !joined[end..].starts_with(b"?=") {
            next = find_beginning(&joined, word.start + 1);
            continue;
        }
        if word.start > position || !neighbours.has_form(&word) {
            neighbours.push_decoded(&mut text)?;
            text.push_str(&charsets::decode_text(&joined[position..word.start], None)?);
            neighbours = Neighbours::of(&word);
        }
        neighbours.text.extend_from_slice(&joined[word.end..end]);
        position = end + 2;
        next = find_beginning(&joined, position);
    }
    neighbours.push_decoded(&mut text)?;
    text.push_str(&charsets::decode_text(&joined[position..], None)?);
    Some(Cow::Owned(text))
}

/// The text of neighbours with one charset and encoding, which are decoded as one word: some programs cut a character
/// in two.
#[derive(Default)]
struct Neighbours {
    charset: Vec<u8>,
    is_base64: bool,
    text: Vec<u8>,
}

impl Neighbours {
    fn of(word: &Beginning<'_>) -> Self {
        Self {
            charset: word.charset.to_vec(),
            is_base64: word.is_base64,
            text: Vec::new(),
        }
    }

    fn has_form(&self, word: &Beginning<'_>) -> bool {
        self.is_base64 == word.is_base64 && self.charset.eq_ignore_ascii_case(word.charset)
    }

    fn push_decoded(&self, text: &mut String) -> Option<()> {
        let content = if self.is_base64 {
            decode_base64(&self.text)
        } else {
            decode_quoted_printable(&self.text, true)
        };
        // What follows "*" is a language (RFC 2231 5).
        let charset = self.charset.split(|&byte| byte == b'*').next();
        text.push_str(&charsets::decode_text(&content, charset)?);
        Some(())
    }
}

/// Returns `value` without its folds and without white space at its ends.
fn unfold(value: &[u8]) -> Cow<'_, [u8]> {
    match without_line_ends(value) {
        Cow::Borrowed(unfolded) => Cow::Borrowed(strip(unfolded)),
        Cow::Owned(unfolded) => Cow::Owned(strip(&unfolded).to_vec()),
    }
}

fn decode_unlabelled(value: Cow<'_, [u8]>) -> Option<Cow<'_, str>> {
    match value {
        Cow::Borrowed(value) => charsets::decode_text(value, None),
        Cow::Owned(value) => {
            charsets::decode_text(&value, None).map(|text| Cow::Owned(text.into_owned()))
        }
    }
}

/// Returns `value` without the white space that separates an encoded word from the next one.
fn without_space_between_words(value: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(value.len());
    let mut copied = 0;
    let mut searched = 0;
    while let Some(end) = find_from(value, b"?=", searched) {
        searched = end + 2;
        let after = &value[searched..];
        let spaces = after.iter().take_while(|&&byte| is_space(byte)).count();
        if spaces > 0 && beginning_at(value, searched + spaces).is_some() {
            joined.extend_from_slice(&value[copied..searched]);
            searched += spaces;
            copied = searched;
        }
    }
    joined.extend_from_slice(&value[copied..]);
    joined
}

/// Returns the first beginning of an encoded word at `start` or after it.
fn find_beginning(value: &[u8], mut start: usize) -> Option<Beginning<'_>> {
    while let Some(at) = find_from(value, b"=?", start) {
        if let Some(beginning) = beginning_at(value, at) {
            return Some(beginning);
        }
        start = at + 1;
    }
    None
}

fn beginning_at(value: &[u8], start: usize) -> Option<Beginning<'_>> {
    let after = value.get(start..)?.strip_prefix(b"=?")?;
    let length = up_to(after, MAX_CHARSET_BYTES + 1)
        .iter()
        .position(|&byte| byte == b'?' || is_space(byte))?;
    let (charset, marks) = after.split_at(length);
    match marks {
        [b'?', encoding @ (b'b' | b'B' | b'q' | b'Q'), b'?', ..] if !charset.is_empty() => {
            Some(Beginning {
                start,
                end: start + 2 + length + 3,
                charset,
                is_base64: matches!(encoding, b'b' | b'B'),
            })
        }
        _ => None,
    }
}

/// Returns where the text of an encoded word ends: at "?=", white space, or what may begin another word.
fn find_text_end(value: &[u8], start: usize) -> Option<usize> {
    let text = value.get(start..)?;
    let length = (0..text.len()).find(|&at| match text[at..] {
        [b'?', b'=', ..] => true,
        [b'=', b'?', b'=', ..] => false,
        [b'=', b'?', ..] => true,
        [byte, ..] => is_space(byte),
        [] => false,
    })?;
    Some(start + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_words_are_decoded() {
        for (value, text) in [
            (&b" plain\r\n text "[..], "plain text"),
            (b"=?utf-8?q?a_b?=", "a b"),
            (
                b"x =?us-ascii*en?B?YWJj?=\r\n =?utf-8?Q?=64?= y",
                "x abcd y",
            ),
            (b"=?utf-8?q?a b?= c", "=?utf-8?q?a b?= c"),
            (b"=?=?utf-8?q?a?==?utf-8?q?b?=", "=?ab"),
        ] {
            let decoded = ascii_text(value).unwrap_or_default();
            assert_eq!(String::from_utf8_lossy(&decoded), text);
        }
    }

    #[test]
    fn text_beyond_ascii_is_left_to_python() {
        for value in [
            &b"caf\xc3\xa9"[..],
            b"=?utf-8?q?caf=C3=A9?=",
            b"=?utf-16?q?a?=",
        ] {
            assert_eq!(ascii_text(value), None);
        }
        assert_eq!(decode_encoded_words(b"=?gb2312?q?=C4=E3?="), None);
    }

    #[test]
    fn text_in_a_known_charset_is_decoded() {
        for value in [
            &b"\r\n caf\xc3\xa9"[..],
            b"=?utf-8?q?caf?= =?utf-8?b?w6k=?=",
        ] {
            assert_eq!(decode_encoded_words(value).as_deref(), Some("caf\u{e9}"));
        }
    }
}
