//! How the name of a row is written: three words, which hold up to 23 bytes; a longer name lies with the long names.
//!
//! The last byte of the three words is the length, and 255 for a long name.

use std::ops::Range;

use super::siphash::{eight_bytes, siphash13, siphash13_words};

pub const MAX_SHORT: usize = 23;
const LONG: u64 = 0xff << 56;

/// The hash of a name, and its three words: zeros for a long name.
pub type HashedName = (u64, [u64; 3]);

/// Returns the hash of a name under the key, and its words: the text is read once.
pub fn hash_and_words(key: [u64; 2], name: &[u8]) -> HashedName {
    if name.len() > MAX_SHORT {
        return (siphash13(key, name), [0; 3]);
    }
    let text = short_text(name);
    let hash = siphash13_words(key, &text[..=name.len() / 8], name.len());
    (
        hash,
        [text[0], text[1], text[2] | (name.len() as u64) << 56],
    )
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

/// Returns the three words of a name of this length that begins at this byte of the long names.
pub fn long_name(at: usize, length: usize) -> [u64; 3] {
    [at as u64, length as u64, LONG]
}

/// Returns the bytes of the long names that these three words stand for; None where they hold the name.
pub fn place_of_long_name(words: [u64; 3]) -> Option<Range<usize>> {
    (words[2] == LONG).then(|| words[0] as usize..(words[0] + words[1]) as usize)
}

/// Returns the bytes that these three words hold, and how many of them are the name.
pub fn held_name(words: [u64; 3]) -> ([u8; 24], usize) {
    let mut bytes = [0; 24];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    (bytes, usize::from(bytes[MAX_SHORT]))
}

/// Returns whether this is the name of a sum and not of a token: `bayes.counts.is_sum`.
pub fn is_sum(name: &[u8]) -> bool {
    name.first() == Some(&b'=') && !name.contains(&b':')
}
