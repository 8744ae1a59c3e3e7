//! The characters that tokens are made of: those of Unicode 14.0, whatever version the interpreter knows.
//!
//! What they are is in tables that Python's own tables made (`characters`). In a token, a later character becomes
//! U+FFFD.

use crate::tokens::characters::{
    BLOCK, BLOCKS, BLOCK_NUMBERS, CLASSES, FOLDED, KNOWN, SPACE, WORD,
};

/// Returns the bits of `characters` for a character; none of a character that was assigned after Unicode 14.0.
pub fn class(character: char) -> u16 {
    let number = character as usize;
    let block = BLOCKS[usize::from(BLOCK_NUMBERS[number / BLOCK])];
    CLASSES[usize::from(block[number % BLOCK] - b'A')]
}

/// Returns whether the tables know the character.
pub fn is_known(character: char) -> bool {
    class(character) & KNOWN != 0
}

/// Returns whether the lower case of a character that was assigned later may be a character of Unicode 14.0: there an
/// interpreter of a later version makes another text. All other ones become U+FFFD, in whatever case they are.
pub fn is_later_capital(character: char) -> bool {
    matches!(character, '\u{a7cb}'..='\u{a7dd}') && !is_known(character)
}

/// Returns whether the tables know each character of `text`.
pub fn is_known_text(text: &str) -> bool {
    beyond_ascii(text).all(is_known)
}

/// Returns the characters beyond ASCII of `text`, in order.
pub fn beyond_ascii(text: &str) -> impl Iterator<Item = char> + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut characters = rest[ascii_bytes(rest.as_bytes())..].chars();
        let character = characters.next();
        rest = characters.as_str();
        character
    })
}

/// Returns whether `\w` matches the character.
pub fn is_word(character: char) -> bool {
    class(character) & WORD != 0
}

/// Returns whether `\s` matches the character, which is `str.isspace`.
pub fn is_space(character: char) -> bool {
    class(character) & SPACE != 0
}

/// Returns whether the character is of a script whose words have no spaces between them.
pub fn is_unspaced(character: char) -> bool {
    matches!(character, '\u{e00}'..='\u{eff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

/// Returns what NFKC and case folding make of a character with the bit `characters::MAPPED`.
pub fn mapped(character: char) -> &'static str {
    FOLDED
        .binary_search_by_key(&character, |(from, _)| *from)
        .map_or("", |place| FOLDED[place].1)
}

/// Returns how many bytes of ASCII `content` begins with.
pub fn ascii_bytes(content: &[u8]) -> usize {
    const BLOCK: usize = 32;
    let blocks = content
        .chunks_exact(BLOCK)
        .take_while(|block| block.is_ascii())
        .count();
    let start = BLOCK * blocks;
    let rest = content[start..].iter().take_while(|byte| byte.is_ascii());
    start + rest.count()
}

/// Returns where the character behind the first `count` characters of `text` begins.
pub fn offset_of(text: &str, count: usize) -> usize {
    // Only so many bytes are looked at: callers ask for the next piece of a long text again and again.
    match text.as_bytes().get(..count) {
        None => return text.len(),
        Some(beginning) if beginning.is_ascii() => return count,
        Some(_) => {}
    }
    text.char_indices()
        .nth(count)
        .map_or(text.len(), |(offset, _)| offset)
}

/// Returns how many characters `text` has.
pub fn length(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_what_python_says() {
        assert!(is_word('é') && is_word('_') && is_word('中') && !is_word('\u{a0}'));
        assert!(is_space('\u{a0}') && is_space('\u{1c}') && is_space('\u{2003}') && !is_space('x'));
        assert!(is_known('\u{e000}') && is_known('\u{20000}') && !is_known('\u{1f6dc}'));
        assert_eq!(mapped('\u{ff21}'), "a");
        assert_eq!(mapped('ß'), "ss");
    }

    #[test]
    fn offsets_count_characters() {
        assert_eq!(offset_of("aéb", 2), 3);
        assert_eq!(offset_of("ab", 9), 2);
        assert_eq!(offset_of("ab", 2), 2);
        assert_eq!(offset_of("abé", 2), 2);
        assert_eq!(offset_of("abé", 3), 4);
        assert_eq!(length("aéb"), 3);
    }

    #[test]
    fn bytes_of_ascii_are_counted_to_the_first_other_one() {
        for size in 0..100 {
            let text = "a".repeat(size);
            assert_eq!(ascii_bytes(text.as_bytes()), size);
            assert_eq!(ascii_bytes((text + "é" + "b").as_bytes()), size);
        }
    }
}
