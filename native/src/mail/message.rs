//! The message: raw bytes, header fields, parts, and the key that identifies it. See `nbstream/mail/message.py`.

use std::borrow::Cow;

use super::blake2b::Blake2b;
use super::bytes::up_to;
use super::encoded_words;
use super::header_fields::{self, HeaderField};
use super::mime::{self, FileName, Limits, MimePart};
use super::unread_end::decode_unread_end;
use super::{base32, bytes};
use crate::foreign::{Foreign, HandBack, Question};

const KEY_FIELDS: [&[u8]; 4] = [b"message-id", b"date", b"from", b"subject"];
const MAIL_FIELDS: [&[u8]; 9] = [
    b"from",
    b"to",
    b"date",
    b"subject",
    b"received",
    b"message-id",
    b"return-path",
    b"mime-version",
    b"content-type",
];

/// The identity of a message: 24 characters of `a-z2-7`.
pub type Key = [u8; 24];

/// A message; `raw` has CRLF line ends. Where `is_bare_text` is true, nothing is read as a field.
pub struct Message<'a> {
    pub raw: &'a [u8],
    pub limits: Limits,
    pub is_bare_text: bool,
    /// The MIME parts in document order; the first one is the message itself.
    pub parts: Vec<MimePart<'a>>,
    is_mail: bool,
}

impl<'a> Message<'a> {
    /// Returns the message in `raw`; `HandBack` where its structure is not written in ASCII.
    pub fn parse(raw: &'a [u8], limits: Limits, is_bare_text: bool) -> Result<Self, HandBack> {
        let parts = if is_bare_text {
            vec![bare_text_part(up_to(raw, limits.look_bytes))]
        } else {
            mime::parse_parts(raw, &limits)?
        };
        let mut message = Message {
            raw,
            limits,
            is_bare_text,
            parts,
            is_mail: false,
        };
        message.is_mail = message
            .fields()
            .iter()
            .any(|field| MAIL_FIELDS.contains(&field.name.as_ref()));
        Ok(message)
    }

    /// The header fields of the message itself, in order.
    pub fn fields(&self) -> &[HeaderField<'a>] {
        self.parts.first().map_or(&[], |part| &part.fields)
    }

    /// Whether there is a header: a bare text may contain a colon, but not the field names of mail.
    pub fn is_mail(&self) -> bool {
        self.is_mail
    }

    /// Returns the first header field of this name (lower case), or None.
    pub fn first_field(&self, name: &[u8]) -> Option<&HeaderField<'a>> {
        self.fields().iter().find(|field| field.name == name)
    }

    /// The text at the end of a message that is too long to be parsed as a whole; empty for any other message.
    ///
    /// `HandBack` where Python must decode it.
    pub fn unread_end(&self) -> Result<String, HandBack> {
        let start = if !self.is_mail {
            self.limits.look_bytes
        } else if self.parts.len() < self.limits.max_parts {
            mime::parsed_bytes(self.raw, &self.limits)
        } else {
            header_fields::body_offset(self.raw)
        };
        let start = start.max(self.raw.len().saturating_sub(self.limits.end_bytes()));
        match self.raw.get(start..) {
            None | Some([]) => Ok(String::new()),
            Some(end) => decode_unread_end(end, self.last_charset()),
        }
    }

    fn last_charset(&self) -> Option<&[u8]> {
        self.parts
            .iter()
            .rev()
            .find(|part| part.content_type.starts_with(b"text/"))
            .and_then(|part| part.charset.as_deref())
    }

    /// The identity of the message.
    pub fn key(&self, foreign: &mut dyn Foreign) -> Result<Key, HandBack> {
        self.digest(&mut |field| match field {
            None => Ok(Vec::new()),
            Some(field) => field_without_white_space(field, foreign),
        })
    }

    /// Returns the key, where `read` returns the content of each field that counts.
    fn digest(
        &self,
        read: &mut dyn FnMut(Option<&HeaderField<'a>>) -> Result<Vec<u8>, HandBack>,
    ) -> Result<Key, HandBack> {
        let mut digest = Blake2b::<15>::default();
        if !self.is_mail {
            update_without_white_space(&mut digest, up_to(self.raw, self.limits.look_bytes));
            return Ok(base32::encode(&digest.digest()));
        }
        for name in KEY_FIELDS {
            digest.update(name);
            digest.update(b"\0");
            digest.update(&read(self.first_field(name))?);
            digest.update(b"\0");
        }
        for part in self.parts.iter().filter(|part| !part.is_container) {
            update_without_white_space(&mut digest, &part.payload);
            digest.update(b"\0");
        }
        Ok(base32::encode(&digest.digest()))
    }
}

fn bare_text_part(text: &[u8]) -> MimePart<'_> {
    MimePart {
        content_type: b"text/plain".to_vec(),
        depth: 0,
        charset: None,
        file_name: FileName::None,
        disposition: Vec::new(),
        transfer_encoding: Vec::new(),
        payload: Cow::Borrowed(text),
        is_container: false,
        fields: Vec::new(),
    }
}

/// 1 for each byte that is not white space.
const WORD_BYTES: [u8; 256] = word_bytes();

const fn word_bytes() -> [u8; 256] {
    let mut word_bytes = [1; 256];
    let mut byte = 0;
    while byte < word_bytes.len() {
        if bytes::is_space(byte as u8) {
            word_bytes[byte] = 0;
        }
        byte += 1;
    }
    word_bytes
}

/// Adds `content` without white space: in blocks, because words are short.
fn update_without_white_space(digest: &mut Blake2b<15>, content: &[u8]) {
    let mut block = [0; BLOCK];
    for piece in content.chunks(BLOCK) {
        let mut length = 0;
        for &byte in piece {
            // Every byte is written, and the next one over it where it is white space: a branch would cost more.
            block[length % BLOCK] = byte;
            length += usize::from(WORD_BYTES[usize::from(byte)]);
        }
        digest.update(&block[..length]);
    }
}

const BLOCK: usize = 4096;

/// Returns the text of a field without white space.
fn field_without_white_space(
    field: &HeaderField<'_>,
    foreign: &mut dyn Foreign,
) -> Result<Vec<u8>, HandBack> {
    match encoded_words::decode_encoded_words(&field.value) {
        Some(text) => Ok(without_white_space(&text)),
        None => single_answer(foreign, Question::KeyField, &field.value),
    }
}

/// Returns `text` without the characters at which `str.split()` splits, in UTF-8.
fn without_white_space(text: &str) -> Vec<u8> {
    if text.is_ascii() {
        let is_space = |byte: &u8| matches!(byte, b'\t'..=b'\r' | 0x1c..=b' ');
        return text.bytes().filter(|byte| !is_space(byte)).collect();
    }
    let is_space =
        |&character: &char| character.is_whitespace() || matches!(character, '\x1c'..='\x1f');
    let left: String = text
        .chars()
        .filter(|character| !is_space(character))
        .collect();
    left.into_bytes()
}

fn single_answer(
    foreign: &mut dyn Foreign,
    question: Question,
    value: &[u8],
) -> Result<Vec<u8>, HandBack> {
    let answer = foreign.ask(question, &[value])?;
    answer.into_iter().next().ok_or(HandBack)
}
