//! The text of a part in lower case, in UTF-8: `decode_long_text`, then `_lower_case` of `tokenizer.py`.
//!
//! Text in UTF-8, in the charsets of single bytes that are frequent in mail, and without a charset is decoded here;
//! Python decodes all other text.

use crate::foreign::{Foreign, HandBack, Question};
use crate::mail::bytes::up_to;
use crate::mail::charsets::{self, single_bytes};
use crate::tokens::unicode;

/// These say nothing: many programs write them whatever they send.
const UNLABELLED: [&[u8]; 3] = [b"us-ascii", b"utf-8", b"ascii"];
const UTF8_NAMES: [&[u8]; 2] = [b"utf8", b"utf_8"];
const MAX_NAME_BYTES: usize = 64;

/// Returns the text of `content` in lower case. `HandBack` where the tables do not know a character of it.
pub fn lower_text(
    content: &[u8],
    charset: Option<&[u8]>,
    foreign: &mut dyn Foreign,
) -> Result<String, HandBack> {
    if let Some(text) = charsets::ascii_text(content, charset) {
        return String::from_utf8(text.to_ascii_lowercase()).map_err(|_| HandBack);
    }
    if let Some(text) = decode(content, charset).and_then(|text| lower_case(&text)) {
        return text;
    }
    let mut arguments = vec![content];
    arguments.extend(charset);
    let answer = foreign.ask(Question::LowerText, &arguments)?;
    let text = answer.into_iter().next().ok_or(HandBack)?;
    let text = String::from_utf8(text).map_err(|_| HandBack)?;
    if unicode::is_known_text(&text) {
        Ok(text)
    } else {
        Err(HandBack)
    }
}

/// Returns `content` as text in `charset`; None where Python must decode it.
fn decode(content: &[u8], charset: Option<&[u8]>) -> Option<String> {
    let name = charset.map(|charset| up_to(charset, MAX_NAME_BYTES).to_ascii_lowercase());
    match name.as_deref() {
        None => decode_unlabelled(content),
        Some(name) if UNLABELLED.contains(&name) => decode_unlabelled(content),
        Some(name) if UTF8_NAMES.contains(&name) => String::from_utf8(content.to_vec()).ok(),
        Some(name) => Some(single_bytes::decode(content, single_bytes::table(name)?)),
    }
}

/// Returns `content` as UTF-8; where it is none, as Windows-1252. Where only its last character is incomplete, the
/// text was cut there.
fn decode_unlabelled(content: &[u8]) -> Option<String> {
    let error = match std::str::from_utf8(content) {
        Ok(text) => return Some(text.to_owned()),
        Err(error) => error,
    };
    let before = up_to(content, error.valid_up_to());
    let wrong = error.error_len().unwrap_or(content.len() - before.len());
    if before.len() + wrong == content.len() && !before.is_ascii() {
        return String::from_utf8(before.to_vec()).ok();
    }
    Some(single_bytes::decode(
        content,
        single_bytes::table(b"windows-1252")?,
    ))
}

/// Returns `text` in lower case; None where Python must do that: a capital sigma depends on what stands around it,
/// and a text with many U+0130 becomes much longer.
fn lower_case(text: &str) -> Option<Result<String, HandBack>> {
    let mut lower = String::with_capacity(text.len());
    let mut longer = 0;
    let mut length = 0;
    for character in text.chars() {
        length += 1;
        if character.is_ascii() {
            lower.push(character.to_ascii_lowercase());
        } else if !unicode::is_known(character) {
            return Some(Err(HandBack));
        } else if character == '\u{3a3}' {
            return None;
        } else {
            let before = lower.len();
            lower.extend(character.to_lowercase());
            longer += lower[before..].chars().count() - 1;
        }
    }
    (longer <= length / 4).then(|| Ok(lower))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    impl Foreign for Nobody {
        fn ask(&mut self, _: Question, _: &[&[u8]]) -> Result<Vec<Vec<u8>>, HandBack> {
            Err(HandBack)
        }
    }

    fn text(content: &[u8], charset: Option<&str>) -> Result<String, HandBack> {
        lower_text(content, charset.map(str::as_bytes), &mut Nobody)
    }

    #[test]
    fn text_without_a_charset_is_utf_8_or_windows_1252() {
        assert_eq!(text("\u{c9}A".as_bytes(), None).unwrap(), "\u{e9}a");
        assert_eq!(
            text(b"\xc9A\x80", Some("US-ASCII")).unwrap(),
            "\u{e9}a\u{20ac}"
        );
        assert_eq!(
            text("\u{e9}\u{e9}".as_bytes().get(..3).unwrap(), None).unwrap(),
            "\u{e9}"
        );
        assert_eq!(text(b"a\xc3", None).unwrap(), "a\u{e3}");
    }

    #[test]
    fn charsets_of_single_bytes_have_tables() {
        assert_eq!(text(b"\xc9", Some("ISO-8859-1")).unwrap(), "\u{e9}");
        assert_eq!(text(b"\xf0\xd2", Some("KOI8-R")).unwrap(), "\u{43f}\u{440}");
    }

    #[test]
    fn what_python_alone_knows_is_asked() {
        assert_eq!(text(b"\xc4\xe3", Some("gb2312")), Err(HandBack));
        assert_eq!(text("\u{3a3}".as_bytes(), None), Err(HandBack));
        assert_eq!(text("\u{1f6dc}".as_bytes(), None), Err(HandBack));
        assert_eq!(text("\u{130}".as_bytes(), None), Err(HandBack));
        assert_eq!(
            text("\u{130}stanbul".as_bytes(), None).unwrap(),
            "i\u{307}stanbul"
        );
    }
}
