//! SipHash-1-3 with 64 bits, and SipHash-2-4 with 128 bits, with a key (Aumasson and Bernstein, "SipHash: a fast
//! short-input PRF", 2012).
//!
//! Who does not know the key cannot choose names that fall together.

/// Returns the hash of `text` under the key.
pub fn siphash13(key: [u64; 2], text: &[u8]) -> u64 {
    let mut v = initial(key);
    absorb_text::<1>(&mut v, text);
    v[2] ^= 0xff;
    rounds::<3>(&mut v)
}

/// Returns what `siphash13` returns for a text of `length` bytes, from its words: the last one has less than eight bytes
/// of the text, perhaps none, and zeros behind them.
pub fn siphash13_words(key: [u64; 2], words: &[u64], length: usize) -> u64 {
    let mut v = initial(key);
    if let Some((last, whole)) = words.split_last() {
        whole.iter().for_each(|word| absorb::<1>(&mut v, *word));
        absorb::<1>(&mut v, last | (length as u64) << 56);
    }
    v[2] ^= 0xff;
    rounds::<3>(&mut v)
}

/// Returns the hash of `text` under the key by SipHash-2-4 with 128 bits, as two numbers in little-endian order.
///
/// Who does not know the key learns nothing of the text.
pub fn siphash24_128(key: [u64; 2], text: &[u8]) -> [u64; 2] {
    let mut v = initial(key);
    v[1] ^= 0xee;
    absorb_text::<2>(&mut v, text);
    v[2] ^= 0xee;
    let first = rounds::<4>(&mut v);
    v[1] ^= 0xdd;
    [first, rounds::<4>(&mut v)]
}

fn initial(key: [u64; 2]) -> [u64; 4] {
    [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ]
}

fn absorb_text<const ROUNDS: usize>(v: &mut [u64; 4], text: &[u8]) {
    let whole = text.len() / 8 * 8;
    for start in (0..whole).step_by(8) {
        absorb::<ROUNDS>(v, eight_bytes(text, start));
    }
    let length = (text.len() as u64) << 56;
    absorb::<ROUNDS>(v, eight_bytes(text, whole) | length);
}

/// Returns the eight bytes at `start` as a number in little-endian order; bytes behind the end are zeros.
pub fn eight_bytes(text: &[u8], start: usize) -> u64 {
    let read = |start: usize| {
        let bytes = text.get(start..)?.get(..8)?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    };
    if let Some(word) = read(start) {
        return word;
    }
    // To copy some bytes costs more than to read all the last eight.
    match (text.len().checked_sub(8).and_then(read), text.get(start..)) {
        (_, None | Some([])) => 0,
        (Some(last), Some(rest)) => last >> (64 - 8 * rest.len()),
        (None, Some(rest)) => less_than_eight(rest),
    }
}

/// Returns less than eight bytes as a number in little-endian order.
fn less_than_eight(bytes: &[u8]) -> u64 {
    let four = |start: usize| {
        let bytes = bytes.get(start..)?.get(..4)?;
        bytes.try_into().ok().map(u32::from_le_bytes).map(u64::from)
    };
    // Two times four bytes that overlap are fewer branches than one by one.
    match bytes
        .len()
        .checked_sub(4)
        .and_then(|start| Some((start, four(0)?, four(start)?)))
    {
        Some((start, first, last)) => first | last << (8 * start),
        None => bytes
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

fn absorb<const ROUNDS: usize>(v: &mut [u64; 4], block: u64) {
    v[3] ^= block;
    rounds::<ROUNDS>(v);
    v[0] ^= block;
}

/// Returns what the state adds up to after some rounds.
fn rounds<const ROUNDS: usize>(v: &mut [u64; 4]) -> u64 {
    for _ in 0..ROUNDS {
        round(v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_standard_library() {
        // `DefaultHasher` is SipHash-1-3 with a key of zeros.
        use std::hash::Hasher;
        let text: Vec<u8> = (0..64).collect();
        for length in 0..text.len() {
            let mut expected = std::collections::hash_map::DefaultHasher::new();
            expected.write(&text[..length]);
            assert_eq!(siphash13([0, 0], &text[..length]), expected.finish());
            let words: Vec<u64> = (0..=length / 8)
                .map(|word| eight_bytes(&text[..length], 8 * word))
                .collect();
            assert_eq!(siphash13_words([0, 0], &words, length), expected.finish());
        }
    }

    #[test]
    fn bytes_behind_the_end_are_zeros() {
        let text: Vec<u8> = (1..=20).collect();
        for length in 0..text.len() {
            for start in 0..30 {
                let mut bytes = [0; 8];
                let rest = text[..length].get(start..).unwrap_or(&[]);
                let read = rest.len().min(8);
                bytes[..read].copy_from_slice(&rest[..read]);
                let expected = u64::from_le_bytes(bytes);
                assert_eq!(eight_bytes(&text[..length], start), expected);
            }
        }
    }

    #[test]
    fn the_hash_of_128_bits_is_that_of_the_reference() {
        // The first two of vectors_sip128 in vectors.h (https://github.com/veorq/SipHash).
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let expected = [
            [0xe6a8_25ba_047f_81a3, 0x9302_55c7_1472_f66d],
            [0x44af_996b_d8c1_87da, 0x45fc_229b_1159_7634],
        ];
        assert_eq!(siphash24_128(key, b""), expected[0]);
        assert_eq!(siphash24_128(key, &[0]), expected[1]);
    }

    #[test]
    fn another_key_gives_another_hash() {
        assert_ne!(siphash13([0, 0], b"token"), siphash13([1, 0], b"token"));
        assert_ne!(siphash13([0, 0], b"token"), siphash13([0, 1], b"token"));
    }
}
