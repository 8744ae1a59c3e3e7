//! Turns the structure of a message into tokens: its tree of parts, attachments, encodings, sizes and markup.

use crate::foreign::{Foreign, HandBack, Question};
use crate::mail::blake2b::blake2b;
use crate::mail::bytes::{is_space, up_to};
use crate::mail::mime::{FileName, MimePart};
use crate::tokens::ascii;
use crate::tokens::encoding::push_encoded;
use crate::tokens::token_list::TokenList;
use crate::tokens::words::text_shape;

const MAX_TEXT_CHARACTERS: usize = 4000;
const MAX_PARTS: usize = 20;
const MAX_BOUNDARY_BYTES: usize = 80;

/// Appends the tokens of the MIME tree. Returns `HandBack` where Python has no answer for a file name beyond ASCII.
pub fn structure_tokens(
    parts: &[MimePart],
    foreign: &mut dyn Foreign,
    tokens: &mut TokenList,
) -> Result<(), HandBack> {
    push_encoded(tokens, &[b"tree:", &tree_outline(parts)]);
    push_number(tokens, &[b"parts:"], parts.len().min(9));
    for part in &parts[..MAX_PARTS.min(parts.len())] {
        part_tokens(part, foreign, tokens)?;
    }
    let mut kinds: Vec<(&[u8], usize)> = Vec::new();
    for part in parts {
        let kind = ascii::partition(&part.content_type, b'/').0;
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((kind, 1)),
        }
    }
    for (kind, count) in kinds.iter().filter(|(kind, _)| kind != b"multipart") {
        push_number(tokens, &[b"kind:", kind, b":"], *count.min(&9));
    }
    Ok(())
}

/// Appends tokens for how a bare text is written: length, digits, capitals, marks and lengths of numbers.
///
/// Returns `HandBack` where Python has no answer for a text beyond ASCII.
pub fn bare_text_tokens(
    content: &[u8],
    foreign: &mut dyn Foreign,
    tokens: &mut TokenList,
) -> Result<(), HandBack> {
    let text = up_to(content, MAX_TEXT_CHARACTERS);
    if !text.is_ascii() {
        let answer = foreign.ask(Question::BareTextTokens, &[content])?;
        answer
            .iter()
            .for_each(|token| push_encoded(tokens, &[token]));
        return Ok(());
    }
    let count = |is_counted: fn(&u8) -> bool| text.iter().filter(|c| is_counted(c)).count();
    let bits = ascii::bit_length(text.len()) as usize;
    push_number(tokens, &[b"text.length:"], bits);
    push_number(tokens, &[b"text.twenties:"], text.len() / 20);
    let digits = eighths(count(u8::is_ascii_digit), text.len());
    push_number(tokens, &[b"text.digits:"], digits);
    let capitals = eighths(count(u8::is_ascii_uppercase), text.len());
    push_number(tokens, &[b"text.capitals:"], capitals);
    let mut marks: Vec<u8> = Vec::new();
    for character in text {
        let is_mark = !character.is_ascii_alphanumeric() && !ascii::is_space(*character);
        if is_mark && !marks.contains(character) && marks.len() < 40 {
            marks.push(*character);
            push_encoded(tokens, &[b"text.mark:", &[*character]]);
        }
    }
    let mut numbers: Vec<&[u8]> = Vec::new();
    let runs = ascii::runs(text, |character| character.is_ascii_digit());
    for number in runs.flat_map(|run| run.chunks(40)) {
        if numbers.len() < 40 && !numbers.contains(&number) {
            numbers.push(number);
            push_number(tokens, &[b"text.number:"], number.len());
        }
    }
    Ok(())
}

/// Returns `part` in eighths of `whole`, rounded up.
fn eighths(part: usize, whole: usize) -> usize {
    let whole = whole.max(1);
    (8 * part + whole - 1) / whole
}

/// Appends the token that consists of these pieces and `number`.
fn push_number(tokens: &mut TokenList, pieces: &[&[u8]], number: usize) {
    push_encoded(tokens, &[&pieces.concat(), number.to_string().as_bytes()]);
}

/// Returns the short types of the first parts with their depth, such as `0m/mixed,1t/plain`.
fn tree_outline(parts: &[MimePart]) -> Vec<u8> {
    let outlines: Vec<Vec<u8>> = parts
        .iter()
        .take(4)
        .map(|part| [part.depth.to_string().as_bytes(), &short_type(part)].concat())
        .collect();
    outlines.join(&b',')
}

fn short_type(part: &MimePart) -> Vec<u8> {
    let (main, sub) = ascii::partition(&part.content_type, b'/');
    [up_to(main, 1), b"/", up_to(sub.unwrap_or(&[]), 10)].concat()
}

fn part_tokens(
    part: &MimePart,
    foreign: &mut dyn Foreign,
    tokens: &mut TokenList,
) -> Result<(), HandBack> {
    push_encoded(tokens, &[b"type:", &part.content_type]);
    if let Some(charset) = &part.charset {
        let lower = charset.to_ascii_lowercase();
        push_encoded(tokens, &[b"charset:", up_to(&lower, 20)]);
    }
    if !part.transfer_encoding.is_empty() {
        let encoding = up_to(&part.transfer_encoding, 20);
        push_encoded(tokens, &[b"encoding:", encoding, b":", &short_type(part)]);
    }
    if !part.disposition.is_empty() {
        push_encoded(tokens, &[b"disposition:", up_to(&part.disposition, 20)]);
    }
    match &part.file_name {
        FileName::Ascii(name) => file_name_tokens(name, tokens),
        FileName::Foreign => foreign_file_name_tokens(part, foreign)?
            .iter()
            .for_each(|token| push_encoded(tokens, &[token])),
        FileName::None => {}
    }
    for field in part
        .fields
        .iter()
        .filter(|field| &*field.name == b"content-type")
    {
        content_type_tokens(&field.value, tokens);
    }
    if !part.is_container {
        payload_tokens(part, tokens);
    }
    Ok(())
}

/// Returns the tokens for the name of a file that Python must read.
fn foreign_file_name_tokens(
    part: &MimePart,
    foreign: &mut dyn Foreign,
) -> Result<Vec<Vec<u8>>, HandBack> {
    let value = |name: &[u8]| {
        let first = part.fields.iter().find(|field| &*field.name == name);
        first.map_or(&[] as &[u8], |field| &field.value)
    };
    let values = [value(b"content-type"), value(b"content-disposition")];
    foreign.ask(Question::FileNameTokens, &values)
}

/// Returns the type that the file of a part has by its name, such as "html".
pub fn file_type(part: &MimePart, foreign: &mut dyn Foreign) -> Result<Vec<u8>, HandBack> {
    Ok(match &part.file_name {
        FileName::None => Vec::new(),
        FileName::Ascii(name) => type_of(&name.to_ascii_lowercase()).to_vec(),
        FileName::Foreign => foreign_file_name_tokens(part, foreign)?
            .iter()
            .find_map(|token| token.strip_prefix(b"file.type:"))
            .unwrap_or_default()
            .to_vec(),
    })
}

fn type_of(lower: &[u8]) -> &[u8] {
    up_to(ascii::rpartition(lower, b'.').1, 10)
}

/// Appends tokens for the name of a file: its end, its outline, and the type that it has by its name.
fn file_name_tokens(name: &[u8], tokens: &mut TokenList) {
    if name.is_empty() {
        return;
    }
    let lower = name.to_ascii_lowercase();
    push_encoded(
        tokens,
        &[b"file:", &lower[lower.len().saturating_sub(40)..]],
    );
    push_encoded(tokens, &[b"file.shape:", &text_shape(&lower, 24)]);
    push_encoded(tokens, &[b"file.type:", type_of(&lower)]);
}

/// Appends tokens for how the Content-Type is written: the outline of the field, and of its boundary.
fn content_type_tokens(value: &[u8], tokens: &mut TokenList) {
    let outline = text_shape(up_to(value, 120), 40);
    push_encoded(tokens, &[b"content-type:", &from_latin_1(&outline)]);
    if let Some(boundary) = boundary(value) {
        let outline = text_shape(boundary, 24);
        push_encoded(tokens, &[b"boundary:", &from_latin_1(&outline)]);
    }
}

/// Returns the boundary as it is written in a Content-Type, without quotes: `_BOUNDARY`.
fn boundary(value: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"boundary";
    let mut rest = value;
    while let Some(at) = rest
        .windows(NAME.len())
        .position(|window| window.eq_ignore_ascii_case(NAME))
    {
        rest = &rest[at + NAME.len()..];
        if let Some(behind) = strip_start(rest).strip_prefix(b"=") {
            let behind = strip_start(behind);
            let behind = behind.strip_prefix(b"\"").unwrap_or(behind);
            let is_end = |byte: &u8| is_space(*byte) || matches!(byte, b'"' | b';');
            let end = behind.iter().position(is_end).unwrap_or(behind.len());
            if end > 0 {
                return Some(&behind[..end.min(MAX_BOUNDARY_BYTES)]);
            }
        }
    }
    None
}

fn strip_start(content: &[u8]) -> &[u8] {
    let start = content.iter().position(|byte| !is_space(*byte));
    &content[start.unwrap_or(content.len())..]
}

/// Returns Latin-1 in UTF-8.
fn from_latin_1(text: &[u8]) -> Vec<u8> {
    let text: String = text.iter().map(|byte| char::from(*byte)).collect();
    text.into_bytes()
}

fn payload_tokens(part: &MimePart, tokens: &mut TokenList) {
    let bits = ascii::bit_length(part.payload.len()) as usize;
    push_number(tokens, &[b"size:", &short_type(part), b":"], bits);
    if !part.content_type.starts_with(b"text/") && !part.payload.is_empty() {
        let digest: [u8; 8] = blake2b(&part.payload);
        let hexadecimal: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        push_encoded(tokens, &[b"content:", hexadecimal.as_bytes()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::NoAnswers;
    use crate::mail::mime::{parse_parts, Limits};

    fn text(tokens: &TokenList) -> String {
        String::from_utf8(tokens.lines(usize::MAX).to_vec()).unwrap()
    }

    #[test]
    fn each_part_gives_type_encoding_file_and_size() {
        let raw = b"Content-Type: multipart/mixed; boundary=\"=_Ab1\"\r\n\r\n--=_Ab1\r\n\r\nhello\r\n\
            --=_Ab1\r\nContent-Type: image/gif; charset=X-Y\r\nContent-Transfer-Encoding: base64\r\n\
            Content-Disposition: attachment; filename=A1.GIF\r\n\r\nYWJj\r\n--=_Ab1--\r\n";
        let parts = parse_parts(raw, &Limits::default()).unwrap();
        let mut tokens = TokenList::distinct();
        structure_tokens(&parts, &mut NoAnswers, &mut tokens).unwrap();
        assert_eq!(
            text(&tokens),
            "tree:0m/mixed,1t/plain,1i/gif\nparts:3\n\
             type:multipart/mixed\ncontent-type:a/a;_a=\"=_Aa9\"\nboundary:=_Aa9\n\
             type:text/plain\nsize:t/plain:3\n\
             type:image/gif\ncharset:x-y\nencoding:base64:i/gif\ndisposition:attachment\n\
             file:a1.gif\nfile.shape:a9.a\nfile.type:gif\ncontent-type:a/a;_a=A-A\n\
             size:i/gif:2\ncontent:d8bb14d833d59559\nkind:text:1\nkind:image:1\n"
        );
    }

    #[test]
    fn a_bare_text_is_described() {
        let mut tokens = TokenList::distinct();
        bare_text_tokens(b"WIN 1000! Call 1000\x1c 12", &mut NoAnswers, &mut tokens).unwrap();
        assert_eq!(
            text(&tokens),
            "text.length:5\ntext.twenties:1\ntext.digits:4\ntext.capitals:2\ntext.mark:!\n\
             text.number:4\ntext.number:2\n"
        );
        assert_eq!(
            bare_text_tokens(b"\xff", &mut NoAnswers, &mut tokens),
            Err(HandBack)
        );
    }

    #[test]
    fn a_boundary_is_found_as_it_is_written() {
        assert_eq!(boundary(b"x; BOUNDARY = \"a;b\""), Some(b"a" as &[u8]));
        assert_eq!(
            boundary(b"boundary; boundary=\"\"; boundary=b c"),
            Some(b"b" as &[u8])
        );
        assert_eq!(boundary(b"boundary="), None);
        assert_eq!(
            boundary(&[b"boundary=".as_slice(), &[b'x'; 99]].concat()),
            Some([b'x'; 80].as_slice())
        );
    }
}
