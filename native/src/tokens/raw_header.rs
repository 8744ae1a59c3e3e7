//! Turns the header as it is written into tokens: each word of it together with the marks around it.

use crate::mail::bytes::{up_to, without_line_ends};
use crate::mail::header_fields::HeaderField;
use crate::tokens::header_tokens::MAX_VALUE_BYTES;
use crate::tokens::runs::for_each_run;
use crate::tokens::token_list::{TokenList, TokenSet};

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
    written
        .iter_mut()
        .for_each(|byte| *byte = VISIBLE[usize::from(*byte)]);
    let mut tokens = TokenSet::new(b"raw:");
    words_in_context(&written, limit, &mut tokens);
    tokens.into_tokens()
}

/// The byte that stands for each byte in a token; the line feed stays, because it separates the fields.
static VISIBLE: [u8; 256] = visible_bytes();

const fn visible_bytes() -> [u8; 256] {
    let mut visible = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        visible[byte] = match byte as u8 {
            b' ' => b'_',
            b'\t' => b'~',
            b'\n' => b'\n',
            0..=0x1f | 0x7f => b'^',
            0x80..=0xff => b'?',
            other => other,
        };
        byte += 1;
    }
    visible
}

/// Whether a byte is part of a word.
static WORD_BYTES: [bool; 256] = word_bytes();

const fn word_bytes() -> [bool; 256] {
    let mut bytes = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        bytes[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    bytes
}

/// Inserts the words of lines until there are `limit` tokens: `_WORD_IN_CONTEXT`.
///
/// Each word comes with one, two and three of the marks before it, where there are so many, the longest first.
fn words_in_context(lines: &[u8], limit: usize, tokens: &mut TokenSet) {
    let is_mark = |byte: &&u8| !WORD_BYTES[usize::from(**byte)] && **byte != b'\n';
    for_each_run(lines, &WORD_BYTES, |start, end| {
        let before = &lines[start.saturating_sub(MAX_MARKS)..start];
        let marks = before.iter().rev().take_while(is_mark).count();
        let read_end = if end - start > MAX_WORD_BYTES {
            start + MAX_WORD_BYTES
        } else {
            let behind = lines[end..].iter().take(MAX_MARKS);
            end + behind.take_while(is_mark).count()
        };
        for marks_before in (1..=marks).rev() {
            if tokens.len() < limit {
                tokens.insert(lines, start - marks_before..read_end);
            }
        }
    });
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
