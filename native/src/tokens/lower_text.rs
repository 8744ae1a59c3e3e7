//! The text of a part in lower case, in UTF-8: `decode_long_text`, then `_lower_case` of `tokenizer.py`.

use crate::foreign::{Foreign, HandBack, Question};
use crate::mail::charsets;
use crate::tokens::characters::LOWER;
use crate::tokens::unicode;

/// Returns the text of `content` in lower case. `HandBack` where Python has no answer.
pub fn lower_text(
    content: &[u8],
    charset: Option<&[u8]>,
    foreign: &mut dyn Foreign,
) -> Result<String, HandBack> {
    if let Some(text) = charsets::ascii_text(content, charset) {
        return String::from_utf8(text.to_ascii_lowercase()).map_err(|_| HandBack);
    }
    if let Some(text) = charsets::decode_text(content, charset) {
        if let Some(lower) = lower(&text) {
            return Ok(bounded(lower, unicode::length(&text)));
        }
    }
    let mut arguments = vec![content];
    arguments.extend(charset);
    let answer = foreign.ask(Question::LowerText, &arguments)?;
    let text = answer.into_iter().next().ok_or(HandBack)?;
    String::from_utf8(text).map_err(|_| HandBack)
}

/// Returns the lower case of a text of `length` characters; where that is much longer, its beginning and its end, as
/// `lower_case` in Python does.
fn bounded(lower: String, length: usize) -> String {
    let lower_length = unicode::length(&lower);
    if lower_length <= length + length / 4 {
        return lower;
    }
    let end = length / 8;
    let beginning = &lower[..unicode::offset_of(&lower, length - end)];
    // An end of no characters is all of it in Python.
    let skipped = if end > 0 { lower_length - end } else { 0 };
    let end = &lower[unicode::offset_of(&lower, skipped)..];
    [beginning, end].join("\n")
}

/// Returns `text` in lower case, as `str.lower` does; None where Python must do that: a capital sigma depends on what
/// stands around it, and a capital that was assigned later on the interpreter.
pub fn lower(text: &str) -> Option<String> {
    let mut lower = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        let (beginning, behind) = rest.split_at(unicode::ascii_bytes(rest.as_bytes()));
        let start = lower.len();
        lower.push_str(beginning);
        lower[start..].make_ascii_lowercase();
        let mut characters = behind.chars();
        let character = match characters.next() {
            Some(character) => character,
            None => break,
        };
        rest = characters.as_str();
        if unicode::class(character) & LOWER != 0 {
            lower.push(character);
        } else if !unicode::is_known(character) {
            if unicode::is_later_capital(character) {
                return None;
            }
            lower.push(character);
        } else if character == '\u{3a3}' {
            return None;
        } else {
            lower.extend(character.to_lowercase());
        }
    }
    Some(lower)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::NoAnswers;

    fn text(content: &[u8], charset: Option<&str>) -> Result<String, HandBack> {
        lower_text(content, charset.map(str::as_bytes), &mut NoAnswers)
    }

    #[test]
    fn text_is_decoded_before_it_gets_lower_case() {
        assert_eq!(text("\u{c9}A".as_bytes(), None).unwrap(), "\u{e9}a");
        assert_eq!(text(b"\xc9A", Some("iso-8859-1")).unwrap(), "\u{e9}a");
    }

    #[test]
    fn of_a_text_that_becomes_much_longer_both_ends_are_read() {
        assert_eq!(text("\u{130}".as_bytes(), None).unwrap(), "i\ni\u{307}");
        let lower = text("\u{130}".repeat(16).as_bytes(), None).unwrap();
        assert_eq!(lower, "i\u{307}".repeat(7) + "\ni\u{307}");
    }

    #[test]
    fn what_python_alone_knows_is_asked() {
        assert_eq!(text(b"\xc4\xe3", Some("gb2312")), Err(HandBack));
        assert_eq!(text("\u{3a3}".as_bytes(), None), Err(HandBack));
        assert_eq!(text("\u{a7cb}".as_bytes(), None), Err(HandBack));
        assert_eq!(
            text("\u{20000}\u{1c89}".as_bytes(), None).unwrap(),
            "\u{20000}\u{1c89}"
        );
        assert_eq!(
            text("\u{130}stanbul".as_bytes(), None).unwrap(),
            "i\u{307}stanbul"
        );
    }
}
