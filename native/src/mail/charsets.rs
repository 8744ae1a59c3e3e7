//! Charsets of text that is all ASCII: see `nbstream/mail/charsets.py`. All other text is decoded by Python.

use super::bytes::up_to;

mod not_ascii;
mod single_byte_tables;
pub mod single_bytes;

/// Returns what `decode_text` makes of `content`, where that is the same bytes: ASCII in a charset that has it.
///
/// It is None for all other text, which Python must decode.
pub fn ascii_text<'a>(content: &'a [u8], charset: Option<&[u8]>) -> Option<&'a [u8]> {
    (content.is_ascii() && charset.map_or(true, has_ascii)).then(|| content)
}

/// Returns what `decode_text` makes of `content`, in UTF-8, where that is the same bytes; else None, as `ascii_text`.
pub fn utf8_text<'a>(content: &'a [u8], charset: Option<&[u8]>) -> Option<&'a [u8]> {
    let is_utf8 = || charset.map_or(true, is_read_as_utf8) && std::str::from_utf8(content).is_ok();
    ascii_text(content, charset).or_else(|| is_utf8().then(|| content))
}

/// Whether right UTF-8 is read as that in `charset`. `_UNLABELLED` in Python has the same names, but for "utf8".
fn is_read_as_utf8(charset: &[u8]) -> bool {
    let names: [&[u8]; 4] = [b"utf-8", b"us-ascii", b"ascii", b"utf8"];
    names.iter().any(|name| name.eq_ignore_ascii_case(charset))
}

/// Whether ASCII text is itself in `charset`. Unknown names are read as UTF-8, which has ASCII.
fn has_ascii(charset: &[u8]) -> bool {
    charset.is_ascii()
        && not_ascii::NAMES
            .binary_search(&normalize_encoding(up_to(charset, 64)).as_slice())
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

    #[test]
    fn right_utf_8_is_itself_where_it_is_labelled_so_or_not_at_all() {
        for charset in [None, Some(&b"UTF-8"[..]), Some(b"us-ascii")] {
            assert_eq!(
                utf8_text(b"caf\xc3\xa9", charset),
                Some(&b"caf\xc3\xa9"[..])
            );
            assert_eq!(utf8_text(b"caf\xe9", charset), None);
        }
        assert_eq!(utf8_text(b"caf\xc3\xa9", Some(b"iso-8859-1")), None);
        assert_eq!(utf8_text(b"cafe", Some(b"utf-7")), None);
    }

    #[test]
    fn the_names_are_in_order() {
        assert!(not_ascii::NAMES.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
