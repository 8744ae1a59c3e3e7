//! The text at the end of a message of which only the beginning is parsed: see `nbstream/mail/message.py`.

use super::bytes::{contains, find_byte};
use super::charsets;
use super::transfer_encodings::{decode_base64, decode_quoted_printable};
use crate::foreign::HandBack;

const MIN_BASE64_BYTES: usize = 60;
const MIN_BINARY_LINE_BYTES: usize = 40;

/// Returns the text in `raw`, the last bytes of a message, in `charset`; `HandBack` where Python must decode it.
pub fn decode_unread_end(raw: &[u8], charset: Option<&[u8]>) -> Result<String, HandBack> {
    // The last line may have no end, and the first one no beginning.
    let lines = [raw, b"\r\n"].concat();
    let mut texts = Vec::new();
    let mut plain: Vec<&[u8]> = Vec::new();
    let mut end = 0;
    let mut start = 0;
    while start < lines.len() {
        let run = base64_run(&lines[start..]);
        if run == 0 {
            start += find_byte(&lines[start..], b'\n').map_or(lines.len() - start, |line| line + 1);
            continue;
        }
        if let Some(content) = decode_base64_lines(&lines[start..start + run]) {
            plain.push(&lines[end..start]);
            texts.push(content);
            end = start + run;
        }
        start += run;
    }
    plain.push(&lines[end..]);
    let mut rest = plain.join(&b"\r\n"[..]);
    if contains(&rest, b"=3D") || contains(&rest, b"=\r\n") {
        rest = decode_quoted_printable(&rest, false);
    }
    let mut text = charsets::decode_text(&rest, charset)
        .ok_or(HandBack)?
        .into_owned();
    for content in &texts {
        text.push('\n');
        text.push_str(&charsets::decode_text(content, charset).ok_or(HandBack)?);
    }
    Ok(text)
}

/// Returns how many bytes the lines of base64 have with which `lines` begins.
fn base64_run(lines: &[u8]) -> usize {
    let mut run = 0;
    loop {
        let line = &lines[run..];
        let letters = line
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
            .count();
        let pads = line[letters..]
            .iter()
            .take_while(|&&byte| byte == b'=')
            .count();
        if letters == 0 || pads > 2 || !line[letters + pads..].starts_with(b"\r\n") {
            return run;
        }
        run += letters + pads + 2;
    }
}

/// Returns the text that these lines encode, nothing if it is binary, None if they are no base64.
fn decode_base64_lines(lines: &[u8]) -> Option<Vec<u8>> {
    if lines.len() < MIN_BASE64_BYTES {
        return None;
    }
    let letters: Vec<u8> = lines
        .iter()
        .copied()
        .filter(|byte| !matches!(byte, b'\r' | b'\n' | b'='))
        .collect();
    // The first line may begin within a group of four.
    for first in 0..4 {
        let groups = letters.get(first..).unwrap_or_default();
        let content = decode_base64(&groups[..groups.len() / 4 * 4]);
        if !content.iter().any(is_control) {
            return Some(content);
        }
    }
    let line_count = lines.iter().filter(|&&byte| byte == b'\n').count();
    (lines.len() >= MIN_BINARY_LINE_BYTES * line_count).then(Vec::new)
}

/// Whether text has no such byte; ISO 2022 has ESC.
fn is_control(byte: &u8) -> bool {
    byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_base64_are_read_or_left_out() {
        let text = b"c29tZSB0ZXh0".repeat(6);
        let picture = b"AAAB".repeat(18);
        let raw = [b"a =3D\r\n", &text[..], b"\r\n--b\r\n", &picture[..]].concat();
        let expected =
            "a =\r\n\r\n--b\r\n\r\n\nsome textsome textsome textsome textsome textsome text\n";
        let decoded = decode_unread_end(&raw, None).unwrap_or_default();
        assert_eq!(decoded, expected);
    }
}
