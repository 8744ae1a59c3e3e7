//! Turns text into words: compatibility forms are unified, case is folded, long words are summarised.

use crate::mail::bytes::up_to;
use crate::tokens::ascii;

/// Longer words are summarised: they are mostly encoded data or random padding.
pub const MAX_WORD_CHARACTERS: usize = 24;

/// Returns the outline of `text`: runs of digits become 9, of capitals A, of other letters a. Each byte is one
/// character (ASCII or Latin-1).
pub fn text_shape(text: &[u8], limit: usize) -> Vec<u8> {
    let mut outline = Vec::with_capacity(limit);
    let mut run = 0;
    for byte in up_to(text, 200) {
        let kind = match byte {
            b'0'..=b'9' => b'9',
            b'A'..=b'Z' => b'A',
            b'a'..=b'z' => b'a',
            _ => 0,
        };
        if kind == 0 || kind != run {
            if outline.len() == limit {
                break;
            }
            outline.push(if kind == 0 { *byte } else { kind });
        }
        run = kind;
    }
    outline
}

/// Calls `take` with the pieces of each word of a short ASCII text in lower case, in order; equal words come again.
///
/// This is `distinct_words` for a text so short that no limit of a text or a message is reached.
pub fn short_ascii_words(lower_text: &[u8], mut take: impl FnMut(&[&[u8]])) {
    for written in ascii::runs(lower_text, is_word_byte) {
        let word = ascii::strip(written, is_mark_inside);
        if word.len() > MAX_WORD_CHARACTERS {
            let tens = (word.len().min(MAX_SUMMARISED_CHARACTERS) / 10).to_string();
            take(&[b"~", &word[..1], tens.as_bytes()]);
            let summarised = up_to(word, MAX_SUMMARISED_CHARACTERS);
            ascii::runs(summarised, |character| character.is_ascii_alphanumeric())
                .filter(|run| run.len() <= MAX_WORD_CHARACTERS)
                .for_each(|run| take(&[run]));
        } else if !word.is_empty() {
            take(&[word]);
        }
    }
}

const MAX_SUMMARISED_CHARACTERS: usize = 400;

fn is_mark_inside(character: u8) -> bool {
    matches!(character, b'\'' | b'.' | b'@' | b'_' | b'-')
}

fn is_word_byte(character: u8) -> bool {
    character.is_ascii_alphanumeric()
        || is_mark_inside(character)
        || matches!(character, b'$' | b'%' | b'!')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_has_one_character_for_each_run() {
        assert_eq!(text_shape(b"Hello WORLD 2026-01!!", 40), b"Aa A 9-9!!");
        assert_eq!(text_shape(b"a1b2c3", 4), b"a9a9");
        assert_eq!(text_shape(b"\xe9A\xff", 24), b"\xe9A\xff");
        assert_eq!(text_shape(&[b'a'; 300], 24), b"a");
    }

    #[test]
    fn words_are_stripped_and_long_ones_summarised() {
        let mut words: Vec<String> = Vec::new();
        let long = format!("{}.{}", "x".repeat(30), "abc");
        short_ascii_words(format!("it's 50% -- 'so' {long}").as_bytes(), |pieces| {
            words.push(String::from_utf8(pieces.concat()).unwrap());
        });
        assert_eq!(words, ["it's", "50%", "so", "~x3", "abc"]);
    }
}
