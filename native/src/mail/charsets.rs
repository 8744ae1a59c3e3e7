//! Text in the charset that a message names: see `nbstream/mail/charsets.py`.
//!
//! Text in UTF-8, in the charsets of single bytes that are frequent in mail, and without a charset is decoded here;
//! Python decodes all other text.

use std::borrow::Cow;

use super::bytes::up_to;

mod not_ascii;
mod single_byte_tables;
mod single_bytes;

/// These say nothing: many programs write them whatever they send.
const UNLABELLED: [&[u8]; 3] = [b"us-ascii", b"utf-8", b"ascii"];
const UTF8_NAMES: [&[u8]; 2] = [b"utf8", b"utf_8"];
const MAX_NAME_BYTES: usize = 64;

/// Returns `content` as text in `charset`; None where Python must decode it.
pub fn decode_text<'a>(content: &'a [u8], charset: Option<&[u8]>) -> Option<Cow<'a, str>> {
    if let Some(text) = ascii_text(content, charset) {
        return std::str::from_utf8(text).ok().map(Cow::Borrowed);
    }
    let name = charset.map(|charset| up_to(charset, MAX_NAME_BYTES).to_ascii_lowercase());
    match name.as_deref() {
        None => decode_unlabelled(content),
        Some(name) if UNLABELLED.contains(&name) => decode_unlabelled(content),
        Some(name) if UTF8_NAMES.contains(&name) => {
            std::str::from_utf8(content).ok().map(Cow::Borrowed)
        }
        Some(name) => Some(Cow::Owned(single_bytes::decode(
            content,
            single_bytes::table(name)?,
        ))),
    }
}

/// Returns `content` as UTF-8; where it is none, as Windows-1252. Where only its last character is incomplete, the
/// text was cut there.
fn decode_unlabelled(content: &[u8]) -> Option<Cow<'_, str>> {
    let error = match std::str::from_utf8(content) {
        Ok(text) => return Some(Cow::Borrowed(text)),
        Err(error) => error,
    };
    let before = up_to(content, error.valid_up_to());
    let wrong = error.error_len().unwrap_or(content.len() - before.len());
    if before.len() + wrong == content.len() && !before.is_ascii() {
        return std::str::from_utf8(before).ok().map(Cow::Borrowed);
    }
    Some(Cow::Owned(single_bytes::decode(
        content,
        single_bytes::table(b"windows-1252")?,
    )))
}

/// Returns what `decode_text` makes of `content`, where that is the same bytes: ASCII in a charset that has it.
///
/// It is None for all other text, which Python must decode.
pub fn ascii_text<'a>(content: &'a [u8], charset: Option<&[u8]>) -> Option<&'a [u8]> {
    (content.is_ascii() && charset.map_or(true, has_ascii)).then_some(content)
}

/// Whether ASCII text is itself in `charset`. Unknown names are read as UTF-8, which has ASCII.
fn has_ascii(charset: &[u8]) -> bool {
    charset.is_ascii()
        && not_ascii::NAMES
            .binary_search(&normalize_encoding(up_to(charset, MAX_NAME_BYTES)).as_slice())
            .is_err()
}

/// Returns the name of a charset as Python compares it, and with "_" for ".": "UTF-16" becomes "utf_16".
fn normalize_encoding(name: &[u8]) -> Vec<u8> {
    let mut normalized = Vec::with_capacity(name.len());
    let mut is_after_mark = false;
    for &byte in name {
        if byte.is_ascii_alphanumeric() || byte == b'.' {
            if is_after_mark && !normalized.is_empty() {
                normalized.push(b'_');
            }
            normalized.push(if byte == b'.' {
                b'_'
            } else {
                byte.to_ascii_lowercase()
            });
            is_after_mark = false;
        } else {
            is_after_mark = true;
        }
    }
    normalized
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_is_itself_in_most_charsets() {
        for charset in [
            "utf-8",
            "US-ASCII",
            "iso-8859-1",
            "x-unknown",
            "",
            "'gb2312'",
        ] {
            assert_eq!(
                ascii_text(b"+a~{", Some(charset.as_bytes())),
                Some(&b"+a~{"[..])
            );
        }
        assert_eq!(ascii_text(b"a", None), Some(&b"a"[..]));
    }

    #[test]
    fn some_charsets_read_ascii_as_something_else() {
        for charset in [
            " \"UTF-16\" ",
            "utf_7",
            "hz-gb-2312",
            "ISO.2022-JP",
            "cp037",
            "\u{e9}",
        ] {
            assert_eq!(
                ascii_text(b"a", Some(charset.as_bytes())),
                None,
                "{charset}"
            );
        }
    }

    #[test]
    fn text_beyond_ascii_is_left_to_python() {
        assert_eq!(ascii_text("\u{e9}".as_bytes(), None), None);
    }

    fn text(content: &[u8], charset: Option<&str>) -> Option<String> {
        decode_text(content, charset.map(str::as_bytes)).map(Cow::into_owned)
    }

    #[test]
    fn text_without_a_charset_is_utf_8_or_windows_1252() {
        for charset in [None, Some("UTF-8"), Some("us-ascii")] {
            assert_eq!(
                text("\u{e9}".as_bytes(), charset).as_deref(),
                Some("\u{e9}")
            );
            assert_eq!(
                text(b"\xe9\x80", charset).as_deref(),
                Some("\u{e9}\u{20ac}")
            );
            assert_eq!(text(b"\xc3\xa9\xc3", charset).as_deref(), Some("\u{e9}"));
            assert_eq!(text(b"a\xc3", charset).as_deref(), Some("a\u{c3}"));
        }
    }

    #[test]
    fn charsets_of_single_bytes_have_tables() {
        assert_eq!(text(b"\xe9", Some("ISO-8859-1")).as_deref(), Some("\u{e9}"));
        assert_eq!(text(b"\xcf", Some("KOI8-R")).as_deref(), Some("\u{43e}"));
    }

    #[test]
    fn other_charsets_are_left_to_python() {
        assert_eq!(text(b"\xc4\xe3", Some("gb2312")), None);
        assert_eq!(text(b"\xe9", Some("utf8")), None);
        assert_eq!(text(b"cafe", Some("utf-7")), None);
    }

    #[test]
    fn the_names_are_in_order() {
        assert!(not_ascii::NAMES.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
