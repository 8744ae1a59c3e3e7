//! Turns the header as it is written into tokens: each word of it together with the marks around it.

use crate::mail::bytes::{up_to, without_line_ends};
use crate::mail::header_fields::HeaderField;
use crate::tokens::header_tokens::MAX_VALUE_BYTES;
use crate::tokens::token_list::TokenList;

const MAX_BYTES: usize = 16 * 1024;
const MAX_WORD_BYTES: usize = 12;
const MAX_MARKS: usize = 3;

/// Returns at most `limit` distinct tokens of the fields as they are written, in their order. `sender_fields` are
/// those of the header that were not added on arrival (see `header_tokens`).
pub fn raw_header_tokens(sender_fields: &[&HeaderField], limit: usize) -> TokenList {
    let mut written = Vec::with_capacity(MAX_BYTES.min(4096));
    for field in sender_fields {
        written.extend_from_slice(b"\n^");
        written.extend_from_slice(&field.name_as_written);
        written.push(b':');
        written.extend_from_slice(&without_line_ends(up_to(&field.value, MAX_VALUE_BYTES)));
        if written.len() >= MAX_BYTES {
            break;
        }
    }
    written.truncate(MAX_BYTES);
    written.iter_mut().for_each(|byte| *byte = visible(*byte));
    let mut tokens = TokenList::distinct();
    for line in written.split(|byte| *byte == b'\n') {
        words_in_context(line, limit, &mut tokens);
    }
    tokens
}

/// Returns the byte that stands for `byte` in a token; the line feed stays, because it separates the fields.
fn visible(byte: u8) -> u8 {
    match byte {
        b' ' => b'_',
        b'\t' => b'~',
        b'\n' => b'\n',
        0..=0x1f | 0x7f => b'^',
        0x80..=0xff => b'?',
        _ => byte,
    }
}

/// Appends the words of a line until there are `limit` tokens: `_WORD_IN_CONTEXT`.
///
/// Each word comes with one, two and three of the marks before it, where there are so many, the longest first.
fn words_in_context(line: &[u8], limit: usize, tokens: &mut TokenList) {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric();
    let mut end_of_word = 0;
    while let Some(marks) = line[end_of_word..].iter().position(is_word) {
        let word_start = end_of_word + marks;
        let rest = &line[word_start..];
        let word_size = rest
            .iter()
            .position(|byte| !is_word(byte))
            .unwrap_or(rest.len());
        let read = if word_size > MAX_WORD_BYTES {
            &rest[..MAX_WORD_BYTES]
        } else {
            let behind = &rest[word_size..];
            let marks_behind = behind
                .iter()
                .take(MAX_MARKS)
                .take_while(|byte| !is_word(byte));
            &rest[..word_size + marks_behind.count()]
        };
        for marks_before in (1..=marks.min(MAX_MARKS)).rev() {
            if tokens.len() >= limit {
                return;
            }
            let before = &line[word_start - marks_before..word_start];
            tokens.push(&[b"raw:", before, read]);
        }
        end_of_word = word_start + word_size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    fn field<'a>(name: &'a [u8], value: &'a [u8]) -> HeaderField<'a> {
        HeaderField {
            name: Cow::Owned(name.to_ascii_lowercase()),
            value: Cow::Borrowed(value),
            name_as_written: Cow::Borrowed(name),
        }
    }

    #[test]
    fn a_word_comes_with_the_marks_around_it() {
        let tokens = raw_header_tokens(&[&field(b"To", b"<a@b>")], 100);
        assert_eq!(
            tokens.lines(usize::MAX),
            b"raw:^To:<\nraw::<a@\nraw:<a@\nraw:@b>\n"
        );
    }

    #[test]
    fn white_space_and_folds_show() {
        let tokens = raw_header_tokens(&[&field(b"A", b"b\r\n\tc\xe9 d")], 100);
        assert_eq!(
            tokens.lines(usize::MAX),
            b"raw:^A:\nraw::b~\nraw:~c?_\nraw:?_d\nraw:_d\n"
        );
    }

    #[test]
    fn long_words_are_cut_and_tokens_limited() {
        let tokens = raw_header_tokens(&[&field(b"A", &[b'b'; 30])], 2);
        assert_eq!(tokens.lines(usize::MAX), b"raw:^A:\nraw::bbbbbbbbbbbb\n");
        assert_eq!(raw_header_tokens(&[&field(b"A", b"b")], 1).len(), 1);
        assert_eq!(raw_header_tokens(&[&field(b"A", b"b")], 0).len(), 0);
    }
}
