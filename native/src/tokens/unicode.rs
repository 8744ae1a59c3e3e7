//! The characters that tokens are made of: those of Unicode 14.0, whatever version the interpreter knows.
//!
//! What they are is in tables that Python's own tables made (`characters`). In a token, a later character becomes
//! U+FFFD.

use std::borrow::Cow;

use crate::tokens::characters::{
    BLOCK, BLOCKS, BLOCK_NUMBERS, CLASSES, FOLDED, KNOWN, SPACE, WORD, WORD_MARK,
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

/// Returns whether the character is a mark that belongs to words: `unicode.MARKS`.
pub fn is_word_mark(character: char) -> bool {
    class(character) & WORD_MARK != 0
}

/// Returns whether the character is not seen: Default_Ignorable_Code_Point.
pub fn is_ignorable(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns whether the character is a general mark, which decorates a letter that it has not united with.
fn is_decoration(character: char) -> bool {
    matches!(character, '\u{300}'..='\u{34e}' | '\u{350}'..='\u{36f}' | '\u{483}'..='\u{489}'
        | '\u{1ab0}'..='\u{1ace}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20f0}' | '\u{fe20}'..='\u{fe2f}')
}

/// Returns `text` without the characters that are not seen: they do not end a word.
pub fn without_ignorable(text: &str) -> Cow<'_, str> {
    without(text, is_ignorable)
}

/// Returns normalised text without the general marks that no letter has united with, such as strokes.
pub fn without_decorations(text: &str) -> Cow<'_, str> {
    without(text, is_decoration)
}

fn without(text: &str, is_left_out: fn(char) -> bool) -> Cow<'_, str> {
    if !beyond_ascii(text).any(is_left_out) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().filter(|c| !is_left_out(*c)).collect())
}

/// Returns whether a character that is not seen stands between two letters or digits of ASCII.
pub fn hides_characters(text: &str) -> bool {
    let content = text.as_bytes();
    let mut end = 0;
    loop {
        let start = end + ascii_bytes(&content[end..]);
        let foreign = text[start..]
            .char_indices()
            .take_while(|(_, character)| !character.is_ascii());
        let mut is_hidden = true;
        end = start;
        for (offset, character) in foreign {
            is_hidden &= is_ignorable(character);
            end = start + offset + character.len_utf8();
        }
        if end == start {
            return false;
        }
        let is_message = |byte: Option<&u8>| byte.map_or(false, u8::is_ascii_alphanumeric);
        if is_hidden
            && start > 0
            && is_message(content.get(start - 1))
            && is_message(content.get(end))
        {
            return true;
        }
    }
}

/// Returns whether the character is of a script whose words have no spaces between them.
pub fn is_unspaced(character: char) -> bool {
    matches!(character, '\u{e00}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{1950}'..='\u{19ff}'
        | '\u{1a20}'..='\u{1aaf}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{a9e0}'..='\u{a9ff}' | '\u{aa60}'..='\u{aadf}' | '\u{ac00}'..='\u{d7af}')
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
