//! Parameters of structured header fields: see `nbstream/mail/parameters.py`.

use std::borrow::Cow;

use super::bytes::{find_byte, is_space, lower, strip, up_to, without_line_ends};
use super::transfer_encodings::hexadecimal;
use super::{charsets, encoded_words};

const MAX_VALUE_BYTES: usize = 1000;

/// The text of a parameter, where it is ASCII; else Python must decode it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParameterText {
    None,
    Ascii(Vec<u8>),
    Foreign,
}

/// The first word of a structured value, in lower case, and its parameters.
pub struct Structured<'a> {
    unfolded: Cow<'a, [u8]>,
}

/// A parameter as it is written: its name with its case, and its value without quotes.
struct Parameter<'v> {
    name: &'v [u8],
    value: Cow<'v, [u8]>,
}

/// Returns the first word of a structured value, and its parameters by name.
pub fn parse_parameters(value: &[u8]) -> Structured<'_> {
    Structured {
        unfolded: without_line_ends(value),
    }
}

impl Structured<'_> {
    /// Returns the first word in lower case, without comments: what is before the first ";".
    pub fn first_word(&self) -> Cow<'_, [u8]> {
        let end = find_byte(&self.unfolded, b';').unwrap_or(self.unfolded.len());
        let first = &self.unfolded[..end];
        if find_byte(first, b'(').is_none() {
            return lower(strip(first));
        }
        Cow::Owned(lower(strip(&without_comments(first))).into_owned())
    }

    /// Returns the parameter called `name` (lower case): the plain one, else the sections of RFC 2231.
    pub fn get(&self, name: &[u8]) -> ParameterText {
        let mut sections: Vec<(u16, Cow<'_, [u8]>, bool)> = Vec::new();
        for parameter in parameters(&self.unfolded) {
            let base = up_to(parameter.name, name.len());
            if !base.eq_ignore_ascii_case(name) {
                continue;
            }
            match parameter.name[name.len()..].split_first() {
                None => return plain_text(name, &parameter.value),
                Some((b'*', section)) => sections.push((
                    section_number(section),
                    parameter.value,
                    parameter.name.ends_with(b"*"),
                )),
                Some(_) => {}
            }
        }
        if sections.is_empty() {
            ParameterText::None
        } else {
            join_sections(sections)
        }
    }
}

/// Returns the beginning of a value without comments, which may be nested; the last one may have no end.
fn without_comments(value: &[u8]) -> Vec<u8> {
    let value = up_to(value, MAX_VALUE_BYTES);
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut depth = 0_usize;
    let mut start = 0;
    for (at, &byte) in value.iter().enumerate() {
        let is_mark = matches!(byte, b'(' | b')') && (at == 0 || value[at - 1] != b'\\');
        if !is_mark {
            continue;
        }
        if depth == 0 {
            kept.push(&value[start..at]);
        }
        start = at + 1;
        depth = match byte {
            b'(' => depth + 1,
            _ => depth.saturating_sub(1),
        };
    }
    if depth == 0 {
        kept.push(&value[start..]);
    }
    kept.join(&b' ')
}

fn plain_text(name: &[u8], value: &[u8]) -> ParameterText {
    // The boundary is decoded as a whole, because the parts and the key of a message depend on it.
    let read = if name == b"boundary" {
        value
    } else {
        up_to(value, MAX_VALUE_BYTES)
    };
    match encoded_words::ascii_text(read) {
        Some(text) => ParameterText::Ascii(text.into_owned()),
        None => ParameterText::Foreign,
    }
}

fn section_number(section: &[u8]) -> u16 {
    let last = section.iter().rposition(|&byte| byte != b'*');
    let number = &section[..last.map_or(0, |last| last + 1)];
    if number.len() < 4 && number.iter().all(u8::is_ascii_digit) {
        number
            .iter()
            .fold(0, |value, digit| value * 10 + u16::from(digit - b'0'))
    } else {
        0
    }
}

/// Returns the text of sections, each with its number, its raw value, and whether that is percent-encoded.
fn join_sections(mut sections: Vec<(u16, Cow<'_, [u8]>, bool)>) -> ParameterText {
    sections.sort_by_key(|section| section.0);
    let mut charset: Option<&[u8]> = None;
    let mut content = Vec::new();
    for (position, (_, section, is_encoded)) in sections.iter().enumerate() {
        if !is_encoded {
            content.extend_from_slice(section);
            continue;
        }
        let mut value: &[u8] = section;
        if position == 0 {
            let mut pieces = section.splitn(3, |&byte| byte == b'\'');
            if let (Some(name), Some(_), Some(text)) = (pieces.next(), pieces.next(), pieces.next())
            {
                charset = Some(name);
                value = text;
            }
        }
        push_unquoted(&mut content, value);
    }
    match charsets::ascii_text(&content, charset) {
        Some(text) => ParameterText::Ascii(text.to_vec()),
        None => ParameterText::Foreign,
    }
}

/// Appends percent-encoded bytes, as `urllib.parse.unquote_to_bytes` decodes them.
fn push_unquoted(content: &mut Vec<u8>, mut text: &[u8]) {
    while let Some(percent) = find_byte(text, b'%') {
        content.extend_from_slice(&text[..percent]);
        text = &text[percent + 1..];
        let byte = match text {
            [high, low, ..] => hexadecimal(*high).zip(hexadecimal(*low)),
            _ => None,
        };
        match byte {
            Some((high, low)) => {
                content.push(high << 4 | low);
                text = &text[2..];
            }
            None => content.push(b'%'),
        }
    }
    content.extend_from_slice(text);
}

/// Yields what `_PARAMETER` finds in a value, in order.
fn parameters(unfolded: &[u8]) -> impl Iterator<Item = Parameter<'_>> {
    let mut rest = unfolded;
    std::iter::from_fn(move || loop {
        let semicolon = find_byte(rest, b';')?;
        rest = &rest[semicolon + 1..];
        if let Some((parameter, after)) = parameter_at(rest) {
            rest = after;
            return Some(parameter);
        }
    })
}

/// Returns the parameter after a semicolon, and what follows it; None where there is none.
fn parameter_at(text: &[u8]) -> Option<(Parameter<'_>, &[u8])> {
    let text = strip_start(text);
    let name_end = text
        .iter()
        .position(|&byte| is_space(byte) || matches!(byte, b'=' | b';' | b'"'))
        .filter(|&end| end > 0)?;
    let (name, text) = text.split_at(name_end);
    let text = strip_start(strip_start(text).strip_prefix(b"=")?);
    if let Some(quoted) = text.strip_prefix(b"\"") {
        let (value, after) = unquote(quoted);
        return Some((Parameter { name, value }, after));
    }
    let end = text
        .iter()
        .position(|&byte| byte == b';' || is_space(byte))
        .unwrap_or(text.len());
    let (value, after) = text.split_at(end);
    let value = Cow::Borrowed(value);
    Some((Parameter { name, value }, after))
}

/// Returns the content of a quoted string without its backslashes, and what follows it. It may have no end.
fn unquote(quoted: &[u8]) -> (Cow<'_, [u8]>, &[u8]) {
    let mut value = Cow::Borrowed(&quoted[..0]);
    let mut rest = quoted;
    loop {
        let end = rest
            .iter()
            .position(|byte| matches!(byte, b'"' | b'\\'))
            .unwrap_or(rest.len());
        let (literal, after) = rest.split_at(end);
        if value.is_empty() {
            value = Cow::Borrowed(literal);
        } else {
            value.to_mut().extend_from_slice(literal);
        }
        rest = match after {
            [b'\\', escaped, after @ ..] => {
                value.to_mut().push(*escaped);
                after
            }
            [b'"', after @ ..] => return (value, after),
            _ => return (value, after),
        };
    }
}

fn strip_start(content: &[u8]) -> &[u8] {
    let first = content.iter().position(|&byte| !is_space(byte));
    &content[first.unwrap_or(content.len())..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &[u8], name: &str) -> Option<String> {
        match parse_parameters(value).get(name.as_bytes()) {
            ParameterText::None => None,
            ParameterText::Ascii(text) => Some(String::from_utf8_lossy(&text).into_owned()),
            ParameterText::Foreign => Some("?".to_string()),
        }
    }

    #[test]
    fn parameters_are_read_by_name() {
        let value = b"Text/HTML ;\r\n Charset = \"a\\\"b\" ; x; =y; name=n;name=m";
        assert_eq!(&*parse_parameters(value).first_word(), b"text/html");
        assert_eq!(read(value, "charset").as_deref(), Some("a\"b"));
        assert_eq!(read(value, "name").as_deref(), Some("n"));
        assert_eq!(read(value, "x"), None);
        assert_eq!(
            read(b"a; boundary=\"open", "boundary").as_deref(),
            Some("open")
        );
    }

    #[test]
    fn sections_are_joined_in_their_order() {
        let value = b"a; n*1=b; n*0*=utf-8''%61%2; n*2*=%63";
        assert_eq!(read(value, "n").as_deref(), Some("a%2bc"));
        assert_eq!(read(b"a; n*=utf-16''a", "n").as_deref(), Some("?"));
        assert_eq!(read(b"a; n*=x; n=y", "n").as_deref(), Some("y"));
    }
}
