//! The MIME parts of a message: see `nbstream/mail/mime.py`.

use std::borrow::Cow;

use super::bytes::{find_from, strip_end, up_to};
use super::header_fields::{self, HeaderField};
use super::parameters::{parse_parameters, ParameterText};
use super::transfer_encodings::decode_transfer_encoding;
use crate::foreign::HandBack;

/// How many bytes of a header are read as fields at most; those that say what a part is are read anywhere in it.
pub const MAX_HEADER_BYTES: usize = 256 * 1024;

/// What of the bytes that are looked at is for the header: the body has the rest, whatever its header.
const HEADER_ROOM_BYTES: usize = 64 * 1024;

// Deeper walks would need a larger stack. The settings allow no more.
const MAX_DEPTH: usize = 100;

/// How much of a message is read: bytes, parts, and levels of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub look_bytes: usize,
    pub max_parts: usize,
    pub max_depth: usize,
}

impl Limits {
    /// How many bytes are read from the end of a message that is longer than what is parsed.
    pub fn end_bytes(&self) -> usize {
        self.look_bytes / 8
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            look_bytes: 1 << 20,
            max_parts: 200,
            max_depth: 20,
        }
    }
}

/// The name of a file: where it is foreign, Python reads it from the fields of the part.
pub type FileName = ParameterText;

/// One node of the MIME tree: see `MimePart` in Python. What is text here is ASCII.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MimePart<'a> {
    pub content_type: Vec<u8>,
    pub depth: usize,
    pub charset: Option<Vec<u8>>,
    pub file_name: FileName,
    pub disposition: Vec<u8>,
    pub transfer_encoding: Vec<u8>,
    pub payload: Cow<'a, [u8]>,
    pub is_container: bool,
    pub fields: Vec<HeaderField<'a>>,
}

impl MimePart<'_> {
    /// Returns the same part, which borrows nothing.
    fn into_owned<'b>(self) -> MimePart<'b> {
        MimePart {
            content_type: self.content_type,
            depth: self.depth,
            charset: self.charset,
            file_name: self.file_name,
            disposition: self.disposition,
            transfer_encoding: self.transfer_encoding,
            payload: Cow::Owned(self.payload.into_owned()),
            is_container: self.is_container,
            fields: self
                .fields
                .into_iter()
                .map(HeaderField::into_owned)
                .collect(),
        }
    }
}

/// Returns the parts of the message `raw` (CRLF line ends); the first one is the message itself.
///
/// A message whose structure is not written in ASCII is handed back.
pub fn parse_parts<'a>(raw: &'a [u8], limits: &Limits) -> Result<Vec<MimePart<'a>>, HandBack> {
    if limits.max_depth > MAX_DEPTH {
        return Err(HandBack);
    }
    let readable = up_to(raw, parsed_bytes(raw, limits));
    let mut parts = Vec::new();
    walk_parts(readable, 0, limits, b"text/plain", &mut parts)?;
    Ok(parts)
}

/// Returns how many bytes `parse_parts` reads of the message `raw` at most.
pub fn parsed_bytes(raw: &[u8], limits: &Limits) -> usize {
    let offset = header_fields::body_offset(up_to(raw, MAX_HEADER_BYTES + 1));
    if offset > MAX_HEADER_BYTES {
        limits.look_bytes
    } else {
        (offset.saturating_add(limits.look_bytes)).saturating_sub(HEADER_ROOM_BYTES)
    }
}

fn walk_parts<'a>(
    raw: &'a [u8],
    depth: usize,
    limits: &Limits,
    default_type: &[u8],
    parts: &mut Vec<MimePart<'a>>,
) -> Result<(), HandBack> {
    if parts.len() >= limits.max_parts {
        return Ok(());
    }
    let offset = header_fields::body_offset(raw);
    let end = offset.min(MAX_HEADER_BYTES);
    let fields = if depth == 0 {
        header_fields::parse_fields(raw, end)
    } else {
        header_fields::parse_content_fields(raw, end)
    };
    // A field that is too long for everything else must not hide what the part is.
    let header = if offset > end {
        parse_part_header(
            &header_fields::parse_content_fields(raw, offset),
            default_type,
        )?
    } else {
        parse_part_header(&fields, default_type)?
    };
    if depth < limits.max_depth {
        if !header.boundary.is_empty() {
            // From the CRLF before the body on, because it may belong to the first delimiter.
            let body = &raw[offset.saturating_sub(2)..];
            let children = split_multipart(body, &header.boundary, limits.max_parts);
            if !children.is_empty() {
                let child_type: &[u8] = match header.content_type.as_slice() {
                    b"multipart/digest" => b"message/rfc822",
                    _ => b"text/plain",
                };
                parts.push(container_part(header, depth, fields));
                for child in children {
                    walk_parts(child, depth + 1, limits, child_type, parts)?;
                }
                return Ok(());
            }
        } else if header.content_type == b"message/rfc822" {
            let message = decode_transfer_encoding(&raw[offset..], &header.transfer_encoding);
            parts.push(container_part(header, depth, fields));
            return match message {
                Cow::Borrowed(message) => {
                    walk_parts(message, depth + 1, limits, b"text/plain", parts)
                }
                Cow::Owned(message) => walk_decoded(&message, depth + 1, limits, parts),
            };
        }
    }
    parts.push(leaf_part(header, depth, fields, &raw[offset..]));
    Ok(())
}

/// Walks through a message that was encoded: its parts cannot borrow from the message around it.
fn walk_decoded(
    message: &[u8],
    depth: usize,
    limits: &Limits,
    parts: &mut Vec<MimePart<'_>>,
) -> Result<(), HandBack> {
    let left = Limits {
        max_parts: limits.max_parts - parts.len().min(limits.max_parts),
        ..*limits
    };
    let mut decoded = Vec::new();
    walk_parts(message, depth, &left, b"text/plain", &mut decoded)?;
    parts.extend(decoded.into_iter().map(MimePart::into_owned));
    Ok(())
}

/// What the header fields of a part say; `is_composite` is whether they declare that it contains others.
struct PartHeader {
    content_type: Vec<u8>,
    charset: Option<Vec<u8>>,
    file_name: FileName,
    disposition: Vec<u8>,
    transfer_encoding: Vec<u8>,
    is_composite: bool,
    boundary: Vec<u8>,
}

fn parse_part_header(
    fields: &[HeaderField<'_>],
    default_type: &[u8],
) -> Result<PartHeader, HandBack> {
    let first = |name: &[u8]| {
        let field = fields.iter().find(|field| field.name == name);
        parse_parameters(field.map_or(&[], |field| &field.value))
    };
    let type_field = first(b"content-type");
    let mut content_type = type_field.first_word();
    if content_type.iter().filter(|&&byte| byte == b'/').count() != 1 {
        content_type = Cow::Borrowed(default_type);
    }
    let disposition_field = first(b"content-disposition");
    let boundary = if content_type.starts_with(b"multipart/") {
        ascii(type_field.get(b"boundary"))?.unwrap_or_default()
    } else {
        Vec::new()
    };
    let is_composite = !boundary.is_empty() || content_type == &b"message/rfc822"[..];
    let mut file_name = disposition_field.get(b"filename");
    if matches!(&file_name, FileName::None) || file_name == FileName::Ascii(Vec::new()) {
        file_name = type_field.get(b"name");
    }
    Ok(PartHeader {
        content_type: only_ascii(content_type)?,
        charset: ascii(type_field.get(b"charset"))?,
        file_name,
        disposition: only_ascii(disposition_field.first_word())?,
        transfer_encoding: only_ascii(first(b"content-transfer-encoding").first_word())?,
        is_composite,
        boundary: single_line(strip_end(&boundary))?,
    })
}

fn ascii(text: ParameterText) -> Result<Option<Vec<u8>>, HandBack> {
    match text {
        ParameterText::None => Ok(None),
        ParameterText::Ascii(text) => Ok(Some(text)),
        ParameterText::Foreign => Err(HandBack),
    }
}

fn only_ascii(word: Cow<'_, [u8]>) -> Result<Vec<u8>, HandBack> {
    if word.is_ascii() {
        Ok(word.into_owned())
    } else {
        Err(HandBack)
    }
}

/// Refuses a boundary with a line end, at which two delimiters could overlap: `find` would not be linear.
fn single_line(boundary: &[u8]) -> Result<Vec<u8>, HandBack> {
    if boundary.contains(&b'\r') {
        Err(HandBack)
    } else {
        Ok(boundary.to_vec())
    }
}

fn container_part<'a>(
    header: PartHeader,
    depth: usize,
    fields: Vec<HeaderField<'a>>,
) -> MimePart<'a> {
    MimePart {
        content_type: header.content_type,
        depth,
        charset: header.charset,
        file_name: header.file_name,
        disposition: header.disposition,
        transfer_encoding: header.transfer_encoding,
        payload: Cow::Borrowed(&[]),
        is_container: true,
        fields,
    }
}

fn leaf_part<'a>(
    header: PartHeader,
    depth: usize,
    fields: Vec<HeaderField<'a>>,
    body: &'a [u8],
) -> MimePart<'a> {
    let payload = decode_transfer_encoding(body, &header.transfer_encoding);
    MimePart {
        content_type: if header.is_composite {
            b"text/plain".to_vec()
        } else {
            header.content_type
        },
        depth,
        charset: header.charset,
        file_name: header.file_name,
        disposition: header.disposition,
        transfer_encoding: header.transfer_encoding,
        payload,
        is_container: false,
        fields,
    }
}

/// Returns the raw parts between the delimiter lines of `body`, without preamble and epilogue.
///
/// `body` starts with the CRLF that ends the header, and there is no CR in `boundary`. Lines that only begin like
/// the delimiter need no limit here: each byte is compared with it once.
pub fn split_multipart<'a>(body: &'a [u8], boundary: &[u8], max_parts: usize) -> Vec<&'a [u8]> {
    let delimiter = [b"\r\n--", boundary].concat();
    let mut parts = Vec::new();
    let mut start: Option<usize> = None;
    let mut next = find_from(body, &delimiter, 0);
    while let Some(at) = next {
        if parts.len() >= max_parts {
            return parts;
        }
        let after = at + delimiter.len();
        let line_end = find_from(body, b"\r\n", after).unwrap_or(body.len());
        let rest = strip_end(&body[after..line_end]);
        if rest.is_empty() || rest == b"--" {
            if let Some(start) = start {
                parts.push(body.get(start..at).unwrap_or_default());
            }
            start = Some(line_end + 2);
            if !rest.is_empty() {
                return parts;
            }
        }
        next = find_from(body, &delimiter, line_end);
    }
    if let Some(last) = start.and_then(|start| body.get(start..)) {
        if !last.is_empty() && parts.len() < max_parts {
            parts.push(last);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(raw: &[u8]) -> Vec<String> {
        let parts = parse_parts(raw, &Limits::default()).unwrap_or_default();
        let describe = |part: &MimePart<'_>| {
            format!(
                "{} {} {}",
                part.depth,
                String::from_utf8_lossy(&part.content_type),
                String::from_utf8_lossy(&part.payload)
            )
        };
        parts.iter().map(describe).collect()
    }

    #[test]
    fn a_container_comes_before_its_children() {
        let raw =
            b"Content-Type: multipart/digest; boundary=b\r\n\r\n--b\r\n\r\nSubject: x\r\n\r\n1\r\n\
            --bc\r\n--b--\r\nepilogue";
        assert_eq!(
            types(raw),
            [
                "0 multipart/digest ",
                "1 message/rfc822 ",
                "2 text/plain 1\r\n--bc"
            ]
        );
    }

    #[test]
    fn a_message_that_is_encoded_is_decoded_before_it_is_read() {
        let raw = b"Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\nQTogYg0KDQpj";
        assert_eq!(types(raw), ["0 message/rfc822 ", "1 text/plain c"]);
    }

    #[test]
    fn a_multipart_without_its_boundary_is_text() {
        let raw = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--c\r\n";
        assert_eq!(types(raw), ["0 text/plain --c\r\n"]);
    }
}
