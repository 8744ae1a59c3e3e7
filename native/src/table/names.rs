//! How the name of a row is written: three words, which hold up to 23 bytes; a longer name lies with the long names.
//!
//! The last byte of the three words is the length plus one, and 255 for a long name. It is 0 for a row without a name.

use super::siphash::{eight_bytes, siphash13, siphash13_words};

pub const MAX_SHORT: usize = 23;
const LONG: u64 = 0xff << 56;

/// What three words say.
pub enum NameKind {
    /// The row has no name.
    Missing,
    /// The name has this length and is in the three words.
    Short(usize),
    /// The name has this length and begins at this word of the long names.
    Long { at: usize, length: usize },
    /// No table writes such words.
    Damaged,
}

/// Returns the three words of a name that has at most `MAX_SHORT` bytes; zeros for a longer one.
pub fn short_name(name: &[u8]) -> [u64; 3] {
    if name.len() > MAX_SHORT {
        return [0; 3];
    }
    with_length(short_text(name), name.len())
}

/// Returns the hash of a name under the key, and what `short_name` returns: the text is read once.
pub fn hash_and_words(key: [u64; 2], name: &[u8]) -> (u64, [u64; 3]) {
    if name.len() > MAX_SHORT {
        return (siphash13(key, name), [0; 3]);
    }
    let text = short_text(name);
    let hash = siphash13_words(key, &text[..=name.len() / 8], name.len());
    (hash, with_length(text, name.len()))
}

/// Returns the bytes of a short name, and zeros behind them.
fn short_text(name: &[u8]) -> [u64; 3] {
    // One branch by the length: a branch for each word costs more.
    match name.len() / 8 {
        0 => [eight_bytes(name, 0), 0, 0],
        1 => [eight_bytes(name, 0), eight_bytes(name, 8), 0],
        _ => [
            eight_bytes(name, 0),
            eight_bytes(name, 8),
            eight_bytes(name, 16),
        ],
    }
}

fn with_length(text: [u64; 3], length: usize) -> [u64; 3] {
    [text[0], text[1], text[2] | (length as u64 + 1) << 56]
}

/// Returns the three words of a long name that begins at this word of the long names.
pub fn long_name(at: usize, length: usize) -> [u64; 3] {
    [at as u64, length as u64, LONG]
}

/// Returns how many words a long name takes; the last one is filled with zeros.
pub fn long_name_words(length: usize) -> usize {
    length / 8 + usize::from(length % 8 != 0)
}

/// Returns what the three words of a row say.
pub fn name_kind(words: [u64; 3]) -> NameKind {
    match words[2] >> 56 {
        0 => NameKind::Missing,
        mark if mark as usize <= MAX_SHORT + 1 => NameKind::Short(mark as usize - 1),
        255 => match (usize::try_from(words[0]), usize::try_from(words[1])) {
            (Ok(at), Ok(length)) if length > MAX_SHORT => NameKind::Long { at, length },
            _ => NameKind::Damaged,
        },
        _ => NameKind::Damaged,
    }
}

/// Returns whether this is the name of a sum and not of a token: `bayes.counts.is_sum`.
pub fn is_sum(name: &[u8]) -> bool {
    name.first() == Some(&b'=') && !name.contains(&b':')
}
