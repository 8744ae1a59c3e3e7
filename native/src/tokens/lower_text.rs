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
    if let Some(text) = charsets::decode_text(content, charset).and_then(|text| lower_case(&text)) {
        return Ok(text);
    }
    let mut arguments = vec![content];
    arguments.extend(charset);
    let answer = foreign.ask(Question::LowerText, &arguments)?;
    let text = answer.into_iter().next().ok_or(HandBack)?;
    String::from_utf8(text).map_err(|_| HandBack)
}

/// Returns `text` in lower case; None where Python must do that: a capital sigma depends on what stands around it, a
/// capital that was assigned later depends on the interpreter, and a text with many U+0130 becomes much longer.
pub fn lower_case(text: &str) -> Option<String> {
    let mut lower = String::with_capacity(text.len());
    let mut longer = 0;
    let mut length = 0;
    let mut rest = text;
    loop {
        let (beginning, behind) = rest.split_at(unicode::ascii_bytes(rest.as_bytes()));
        let start = lower.len();
        lower.push_str(beginning);
        lower[start..].make_ascii_lowercase();
        length += beginning.len();
        let mut characters = behind.chars();
        let character = match characters.next() {
            Some(character) => character,
            None => break,
        };
        rest = characters.as_str();
        length += 1;
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
            let before = lower.len();
            lower.extend(character.to_lowercase());
            longer += lower[before..].chars().count() - 1;
        }
    }
    (longer <= length / 4).then_some(lower)
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
    fn what_python_alone_knows_is_asked() {
        assert_eq!(text(b"\xc4\xe3", Some("gb2312")), Err(HandBack));
        assert_eq!(text("\u{3a3}".as_bytes(), None), Err(HandBack));
        assert_eq!(text("\u{a7cb}".as_bytes(), None), Err(HandBack));
        assert_eq!(
            text("\u{20000}\u{1c89}".as_bytes(), None).unwrap(),
            "\u{20000}\u{1c89}"
        );
        assert_eq!(text("\u{130}".as_bytes(), None), Err(HandBack));
        assert_eq!(
            text("\u{130}stanbul".as_bytes(), None).unwrap(),
            "i\u{307}stanbul"
        );
    }
}
