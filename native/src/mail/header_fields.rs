//! Header fields on raw bytes: see `nbstream/mail/header_fields.py`.

use std::borrow::Cow;

use super::bytes::{find, find_byte, find_from, lower, strip, up_to};
use super::encoded_words;

/// A header field: its name in lower case, its raw value with its folds, and its name as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderField<'a> {
    /// ASCII, in lower case.
    pub name: Cow<'a, [u8]>,
    /// Without white space at its ends.
    pub value: Cow<'a, [u8]>,
    pub name_as_written: Cow<'a, [u8]>,
}

impl HeaderField<'_> {
    /// Returns the value as text: unfolded and decoded. None where it is not all ASCII.
    pub fn text(&self) -> Option<Cow<'_, [u8]>> {
        encoded_words::ascii_text(&self.value)
    }

    /// Returns the same field, which borrows nothing.
    pub fn into_owned<'b>(self) -> HeaderField<'b> {
        HeaderField {
            name: Cow::Owned(self.name.into_owned()),
            value: Cow::Owned(self.value.into_owned()),
            name_as_written: Cow::Owned(self.name_as_written.into_owned()),
        }
    }
}

/// Returns where the body begins: after the first empty line, or at the end where there is none.
pub fn body_offset(raw: &[u8]) -> usize {
    if raw.starts_with(b"\r\n") {
        return 2;
    }
    find(raw, b"\r\n\r\n").map_or(raw.len(), |blank| blank + 4)
}

/// Returns the header fields in `raw[..end]`, in order; lines that are not a field are ignored.
pub fn parse_fields(raw: &[u8], end: usize) -> Vec<HeaderField<'_>> {
    field_lines(up_to(raw, end))
        .filter_map(parse_field)
        .collect()
}

/// Returns the fields of `parse_fields` whose name begins with "Content-": a part has no others.
pub fn parse_content_fields(raw: &[u8], end: usize) -> Vec<HeaderField<'_>> {
    field_lines(up_to(raw, end))
        .filter(|line| up_to(line, 8).eq_ignore_ascii_case(b"content-"))
        .filter_map(parse_field)
        .collect()
}

/// Yields the lines of a header, each with those that continue it, without the CRLF at its end.
fn field_lines(header: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(header);
    std::iter::from_fn(move || {
        let lines = rest?;
        let mut searched = 0;
        while let Some(end) = find_from(lines, b"\r\n", searched) {
            let after = &lines[end + 2..];
            if !matches!(after.first(), Some(b' ' | b'\t')) {
                rest = Some(after);
                return Some(&lines[..end]);
            }
            searched = end + 2;
        }
        rest = None;
        Some(lines)
    })
}

fn parse_field(line: &[u8]) -> Option<HeaderField<'_>> {
    let colon = find_byte(line, b':')?;
    let name = parse_field_name(&line[..colon])?;
    Some(HeaderField {
        name: lower(name),
        value: Cow::Borrowed(strip(&line[colon + 1..])),
        name_as_written: Cow::Borrowed(name),
    })
}

/// Returns the name of a field without white space at its end; None where it is not a valid name.
fn parse_field_name(raw_name: &[u8]) -> Option<&[u8]> {
    let last = raw_name
        .iter()
        .rposition(|byte| !matches!(byte, b' ' | b'\t'))?;
    let name = &raw_name[..=last];
    name.iter().all(u8::is_ascii_graphic).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_and_values(raw: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        parse_fields(raw, raw.len())
            .into_iter()
            .map(|field| (field.name.into_owned(), field.value.into_owned()))
            .collect()
    }

    #[test]
    fn a_continuation_belongs_to_the_field_above() {
        assert_eq!(
            names_and_values(b"A: b\r\n c\r\nno field\r\nB \t: \r\n\r\nC: d"),
            [
                (b"a".to_vec(), b"b\r\n c".to_vec()),
                (b"b".to_vec(), b"".to_vec()),
                (b"c".to_vec(), b"d".to_vec()),
            ]
        );
    }

    #[test]
    fn a_name_has_visible_ascii_alone() {
        assert_eq!(names_and_values(b"a b: c\r\n\xe9: d\r\n: e\r\n f: g"), []);
    }

    #[test]
    fn only_fields_of_content_are_those_of_a_part() {
        let fields = parse_content_fields(b"Content-Type: a\r\nX: b\r\ncontent-x:\r\n", 100);
        let names: Vec<_> = fields.iter().map(|field| field.name.as_ref()).collect();
        assert_eq!(names, [&b"content-type"[..], b"content-x"]);
        assert_eq!(fields[0].name_as_written.as_ref(), b"Content-Type");
    }

    #[test]
    fn the_body_begins_after_the_first_empty_line() {
        assert_eq!(body_offset(b"\r\nbody"), 2);
        assert_eq!(body_offset(b"A: b\r\n\r\nbody"), 8);
        assert_eq!(body_offset(b"A: b\r\n"), 6);
    }
}
