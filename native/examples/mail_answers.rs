//! Answers questions about `mail` on standard input, so that the tests can compare it with the Python package.
//!
//! A question is a list of byte strings, and so is an answer: their number, then each with its length before it, all
//! numbers as 32 bits in little-endian order. The first string names the function. An empty list as the answer
//! means that the function leaves the question to Python.

use std::borrow::Cow;
use std::io::{self, Read, Write};

use nbstream_native::foreign::{Foreign, HandBack, Question};
use nbstream_native::mail::message::Message;
use nbstream_native::mail::mime::{Limits, MimePart};
use nbstream_native::mail::parameters::{parse_parameters, ParameterText};
use nbstream_native::mail::{
    base32, blake2b, charsets, encoded_words, transfer_encodings, unread_end,
};

type Strings = Vec<Vec<u8>>;

struct NobodyAnswers;

impl Foreign for NobodyAnswers {
    fn ask(&mut self, _: Question, _: &[&[u8]]) -> Result<Strings, HandBack> {
        Err(HandBack)
    }
}

fn main() -> io::Result<()> {
    let mut input = io::stdin().lock();
    let mut output = io::BufWriter::new(io::stdout().lock());
    while let Some(question) = read_strings(&mut input)? {
        let arguments: Vec<&[u8]> = question.iter().map(Vec::as_slice).collect();
        let answer = answer(&arguments).unwrap_or_default();
        output.write_all(&(answer.len() as u32).to_le_bytes())?;
        for string in answer {
            output.write_all(&(string.len() as u32).to_le_bytes())?;
            output.write_all(&string)?;
        }
        output.flush()?;
    }
    Ok(())
}

fn read_strings(input: &mut impl Read) -> io::Result<Option<Strings>> {
    let count = match read_number(input) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        count => count?,
    };
    let read_string = |_| {
        let mut string = vec![0; read_number(input)?];
        input.read_exact(&mut string)?;
        Ok(string)
    };
    (0..count)
        .map(read_string)
        .collect::<io::Result<_>>()
        .map(Some)
}

fn read_number(input: &mut impl Read) -> io::Result<usize> {
    let mut number = [0; 4];
    input.read_exact(&mut number)?;
    Ok(u32::from_le_bytes(number) as usize)
}

fn answer(question: &[&[u8]]) -> Option<Strings> {
    Some(match *question {
        [b"decode_base64", text] => vec![transfer_encodings::decode_base64(text)],
        [b"a2b_qp", text] => vec![transfer_encodings::decode_quoted_printable(text, false)],
        [b"a2b_qp in a header", text] => {
            vec![transfer_encodings::decode_quoted_printable(text, true)]
        }
        [b"decode_encoded_words", value] => text(encoded_words::decode_encoded_words(value))?,
        [b"decode_text", content] => text(charsets::decode_text(content, None))?,
        [b"decode_text", content, charset] => text(charsets::decode_text(content, Some(charset)))?,
        [b"blake2b", content] => vec![blake2b::blake2b::<15>(content).to_vec()],
        [b"base32", content] => vec![base32::encode(content.try_into().ok()?).to_vec()],
        [b"parse_parameters", value, name] => {
            let parameters = parse_parameters(value);
            let mut answer = vec![parameters.first_word().into_owned()];
            answer.extend(described(&parameters.get(name)));
            answer
        }
        [b"decode_unread_end", raw] => {
            vec![unread_end::decode_unread_end(raw, None).ok()?.into_bytes()]
        }
        [b"decode_unread_end", raw, charset] => {
            vec![unread_end::decode_unread_end(raw, Some(charset))
                .ok()?
                .into_bytes()]
        }
        [b"Message", raw, look_bytes, max_parts, max_depth, is_bare_text] => {
            let limits = Limits {
                look_bytes: parse_number(look_bytes)?,
                max_parts: parse_number(max_parts)?,
                max_depth: parse_number(max_depth)?,
            };
            described_message(&Message::parse(raw, limits, is_bare_text == b"1").ok()?)
        }
        _ => panic!("unknown question"),
    })
}

fn text(text: Option<Cow<'_, str>>) -> Option<Strings> {
    Some(vec![text?.into_owned().into_bytes()])
}

fn parse_number(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Returns nothing for a parameter that is not there, its text, or "?" and "foreign".
fn described(text: &ParameterText) -> Strings {
    match text {
        ParameterText::None => vec![],
        ParameterText::Ascii(text) => vec![text.clone()],
        ParameterText::Foreign => vec![b"?".to_vec(), b"foreign".to_vec()],
    }
}

/// Returns whether it is mail, the key and the unread end (each "?" where it is left to Python), and
/// the parts.
fn described_message(message: &Message<'_>) -> Strings {
    let key = message.key(&mut NobodyAnswers);
    let mut strings = vec![
        message.is_mail().to_string().into_bytes(),
        key.map_or(b"?".to_vec(), |key| key.to_vec()),
        message
            .unread_end()
            .map_or(b"?".to_vec(), String::into_bytes),
    ];
    for part in &message.parts {
        push_part(&mut strings, part);
    }
    strings
}

fn push_part(strings: &mut Strings, part: &MimePart<'_>) {
    strings.push(part.content_type.clone());
    strings.push(part.depth.to_string().into_bytes());
    strings.push(part.charset.clone().unwrap_or_else(|| b"none".to_vec()));
    strings.push(described(&part.file_name).concat());
    strings.push(part.disposition.clone());
    strings.push(part.transfer_encoding.clone());
    strings.push(part.is_container.to_string().into_bytes());
    strings.push(part.payload.to_vec());
    strings.push(part.fields.len().to_string().into_bytes());
    for field in &part.fields {
        strings.push(field.name.to_vec());
        strings.push(field.name_as_written.to_vec());
        strings.push(field.value.to_vec());
    }
}
