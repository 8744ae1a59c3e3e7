//! Content transfer encodings: see `nbstream/mail/encoded_words.py`, and CPython's `binascii`.

use std::borrow::Cow;

use super::bytes::find_byte;

const NO_DIGIT: u8 = 0xff;
const BASE64_DIGITS: [u8; 256] = base64_digits();

const fn base64_digits() -> [u8; 256] {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut digits = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < 64 {
        digits[alphabet[digit] as usize] = digit as u8;
        digit += 1;
    }
    digits
}

/// Returns `body` after transfer decoding; where `encoding` is unknown, `body` as it is (RFC 2045 6).
pub fn decode_transfer_encoding<'a>(body: &'a [u8], encoding: &[u8]) -> Cow<'a, [u8]> {
    match encoding {
        b"base64" => Cow::Owned(decode_base64(body)),
        b"quoted-printable" => Cow::Owned(decode_quoted_printable(body, false)),
        _ => Cow::Borrowed(body),
    }
}

/// Returns the content of base64: foreign characters are ignored, and an incomplete end is cut off.
///
/// Padding that completes a group of four ends this group alone; other padding is ignored.
pub fn decode_base64(text: &[u8]) -> Vec<u8> {
    let mut content = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let mut bits = 0_u32;
    let mut digits = 0_u8;
    let mut pads = 0_u8;
    let mut rest = text;
    while !rest.is_empty() {
        if digits == 0 {
            rest = &rest[push_whole_groups(rest, &mut content)..];
        }
        let (letter, after) = match rest.split_first() {
            Some((&letter, after)) => (letter, after),
            None => break,
        };
        rest = after;
        if letter == b'=' {
            if digits >= 2 {
                pads += 1;
                if digits + pads >= 4 {
                    bits = 0;
                    digits = 0;
                    pads = 0;
                }
            }
            continue;
        }
        let digit = BASE64_DIGITS[usize::from(letter)];
        if digit == NO_DIGIT {
            continue;
        }
        pads = 0;
        bits = bits << 6 | u32::from(digit);
        digits += 1;
        // A byte is complete as soon as its last bit is there, also where the group never is.
        match digits {
            2 => content.push((bits >> 4) as u8),
            3 => content.push((bits >> 2) as u8),
            4 => {
                content.push(bits as u8);
                digits = 0;
            }
            _ => {}
        }
    }
    content
}

/// Appends the content of the whole groups with which `text` begins, and returns how many letters these have.
fn push_whole_groups(text: &[u8], content: &mut Vec<u8>) -> usize {
    const GROUPS: usize = 16;
    let mut read = 0;
    loop {
        // The groups of a line are decoded in one go, and only then added.
        let mut decoded = [0; 3 * GROUPS];
        let mut groups = 0;
        for (letters, bytes) in text[read..]
            .chunks_exact(4)
            .zip(decoded.chunks_exact_mut(3))
        {
            let digit = |place: usize| BASE64_DIGITS[usize::from(letters[place])];
            let (a, b, c, d) = (digit(0), digit(1), digit(2), digit(3));
            if a | b | c | d >= 64 {
                break;
            }
            bytes[0] = a << 2 | b >> 4;
            bytes[1] = b << 4 | c >> 2;
            bytes[2] = c << 6 | d;
            groups += 1;
        }
        content.extend_from_slice(&decoded[..3 * groups]);
        read += 4 * groups;
        if groups < GROUPS {
            return read;
        }
    }
}

/// Returns the content of quoted-printable as `binascii.a2b_qp` does; in a header "_" is a space (RFC 2047 4.2).
pub fn decode_quoted_printable(text: &[u8], is_header: bool) -> Vec<u8> {
    let mut content = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(equals) = find_byte(rest, b'=') {
        push_literal(&mut content, &rest[..equals], is_header);
        rest = &rest[equals + 1..];
        rest = match rest {
            [b'\n', after @ ..] => after,
            [b' ' | b'\t', ..] if !is_header && is_soft_break(rest) => {
                &rest[find_byte(rest, b'\n').map_or(rest.len(), |line_feed| line_feed + 1)..]
            }
            // All is skipped as far as the line feed.
            [b'\r', after @ ..] => {
                find_byte(after, b'\n').map_or(&[][..], |line_feed| &after[line_feed + 1..])
            }
            [b'=', after @ ..] => {
                content.push(b'=');
                if !is_header && is_soft_break(after) {
                    &after[find_byte(after, b'\r').unwrap_or(0)..]
                } else {
                    after
                }
            }
            [high, low, after @ ..] => match (hexadecimal(*high), hexadecimal(*low)) {
                (Some(high), Some(low)) => {
                    content.push(high << 4 | low);
                    after
                }
                _ => {
                    content.push(b'=');
                    rest
                }
            },
            [_] => {
                content.push(b'=');
                rest
            }
            [] => rest,
        };
    }
    push_literal(&mut content, rest, is_header);
    content
}

/// Returns whether blanks and a line end follow: they were added on the way (RFC 2045 6.7, rule 3).
fn is_soft_break(rest: &[u8]) -> bool {
    let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t'));
    rest[blanks.count()..].starts_with(b"\r\n")
}

fn push_literal(content: &mut Vec<u8>, literal: &[u8], is_header: bool) {
    if is_header {
        content.extend(
            literal
                .iter()
                .map(|&byte| if byte == b'_' { b' ' } else { byte }),
        );
    } else {
        content.extend_from_slice(literal);
    }
}

/// Returns the value of a hexadecimal digit.
pub fn hexadecimal(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_as_binascii_reads_it() {
        for (text, content) in [
            (&b"YWJjZA=="[..], &b"abcd"[..]),
            (b"YW\r\nJj-ZA", b"abcd"),
            (b"YW==YWJj", b"aabc"),
            (b"YWI=YWJj", b"ababc"),
            (b"YW=-=YWJj", b"aabc"),
            (b"YW=JjYWJj", b"abcabc"),
            (b"=YWJj", b"abc"),
            (b"YWJjY", b"abc"),
            (b"YWJjYW", b"abca"),
            (b"\xff====", b""),
        ] {
            assert_eq!(decode_base64(text), content);
        }
    }

    #[test]
    fn quoted_printable_is_read_as_binascii_reads_it() {
        for (text, content) in [
            (&b"=41=e4=E4_"[..], &b"A\xe4\xe4_"[..]),
            (b"a=\r\nb=\nc", b"abc"),
            (b"a= \t\r\nb= c", b"ab= c"),
            (b"a=\rb\nc", b"ac"),
            (b"a=\rb", b"a"),
            (b"==41=4", b"=41=4"),
            (b"=g1=1g=", b"=g1=1g"),
        ] {
            assert_eq!(decode_quoted_printable(text, false), content);
        }
        assert_eq!(decode_quoted_printable(b"a_b=_c=5F", true), b"a b= c_");
    }
}
