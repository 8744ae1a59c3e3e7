//! Encodes tokens: UTF-8 without ASCII white space or control characters, `MAX_TOKEN_BYTES` at most.

use crate::tokens::token_list::TokenList;

/// How many bytes a token has at most.
pub const MAX_TOKEN_BYTES: usize = 64;

/// Appends the token that consists of these pieces of UTF-8, cleaned and cut, to `tokens`.
///
/// This is `encode_tokens` for one token. White space and control characters become "_".
pub fn push_encoded(tokens: &mut TokenList, pieces: &[&[u8]]) {
    tokens.push_with(|lines| {
        let start = lines.len();
        pieces.iter().for_each(|piece| lines.extend(*piece));
        let size = truncate_utf8(&lines[start..], MAX_TOKEN_BYTES).len();
        lines.truncate(start + size);
        if !is_clean(&lines[start..]) {
            for byte in &mut lines[start..] {
                if *byte <= b' ' || *byte == 0x7f {
                    *byte = b'_';
                }
            }
        }
    });
}

/// Returns whether there is no white space and no control character in ASCII. Most tokens are such.
fn is_clean(token: &[u8]) -> bool {
    let is_left_out = |byte: u8| (byte <= b' ') | (byte == 0x7f);
    let clean = |piece: &[u8]| {
        !piece
            .iter()
            .fold(false, |found, byte| found | is_left_out(*byte))
    };
    let pieces = token.chunks_exact(8);
    clean(pieces.remainder()) && token.chunks_exact(8).all(clean)
}

/// Returns `text`, which is UTF-8, up to the last whole character within `max_bytes` bytes.
pub fn truncate_utf8(text: &[u8], max_bytes: usize) -> &[u8] {
    if text.len() <= max_bytes {
        return text;
    }
    let mut end = max_bytes;
    while end > 0 && text[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(pieces: &[&[u8]]) -> Vec<u8> {
        let mut tokens = TokenList::new();
        push_encoded(&mut tokens, pieces);
        tokens.get(0).to_vec()
    }

    #[test]
    fn white_space_and_control_characters_become_low_lines() {
        assert_eq!(encoded(&[b"a \t", b"\n\x7f\x1f!"]), b"a_____!");
    }

    #[test]
    fn a_token_ends_with_a_whole_character() {
        assert_eq!(encoded(&[&[b'a'; 70]]), [b'a'; 64]);
        let text = "\u{20ac}".repeat(30);
        assert_eq!(encoded(&[text.as_bytes()]), text.as_bytes()[..63]);
        assert_eq!(truncate_utf8("a\u{1f600}".as_bytes(), 4), b"a");
    }
}
