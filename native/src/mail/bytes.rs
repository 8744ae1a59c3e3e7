//! What Python's `bytes` offers and `[u8]` does not: search, white space, lower case.

use std::borrow::Cow;

/// Whether `byte` is white space to `bytes.strip()` and to `\s` of a pattern of bytes.
pub const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Returns `content` without white space at its end.
pub fn strip_end(content: &[u8]) -> &[u8] {
    let last = content.iter().rposition(|&byte| !is_space(byte));
    &content[..last.map_or(0, |last| last + 1)]
}

/// Returns `content` without white space at its ends.
pub fn strip(content: &[u8]) -> &[u8] {
    let content = strip_end(content);
    let first = content.iter().position(|&byte| !is_space(byte));
    &content[first.unwrap_or(0)..]
}

/// Returns `content` with ASCII letters in lower case.
pub fn lower(content: &[u8]) -> Cow<'_, [u8]> {
    if content.iter().any(u8::is_ascii_uppercase) {
        Cow::Owned(content.to_ascii_lowercase())
    } else {
        Cow::Borrowed(content)
    }
}

/// How many bytes are compared at once.
const BLOCK: usize = 16;

/// Returns a bit for each byte of a block: 1 where it is `byte`, the first one as the lowest.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)] // Rust has no other way to get the bits of a comparison.
#[inline(always)]
fn places_of(byte: u8, block: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
    assert_eq!(block.len(), BLOCK);
    // SAFETY: every processor of this architecture has the instructions, and so many bytes are there to be read.
    unsafe {
        let block = _mm_loadu_si128(block.as_ptr().cast());
        _mm_movemask_epi8(_mm_cmpeq_epi8(block, _mm_set1_epi8(byte as i8))) as u32
    }
}

#[cfg(not(target_arch = "x86_64"))]
use places_by_words as places_of;

/// Does the same on any processor, for eight bytes at a time.
///
/// The highest bit of each byte that is `byte` remains; nothing is carried from one byte to the next (Henry S. Warren,
/// "Hacker's Delight", 2nd edition, 6-1). The product brings the eight bits together.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn places_by_words(byte: u8, block: &[u8]) -> u32 {
    const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    const TOGETHER: u64 = 0x0102_0408_1020_4080;
    block.chunks_exact(8).rev().fold(0, |places, word| {
        let word = word.try_into().map_or(0, u64::from_le_bytes);
        let differences = word ^ u64::from_ne_bytes([byte; 8]);
        let highest = !(((differences & LOW_BITS) + LOW_BITS) | differences | LOW_BITS);
        places << 8 | ((highest >> 7).wrapping_mul(TOGETHER) >> 56) as u32
    })
}

/// Returns where the first `byte` is.
pub fn find_byte(content: &[u8], byte: u8) -> Option<usize> {
    let mut start = 0;
    for block in content.chunks_exact(BLOCK) {
        let places = places_of(byte, block);
        if places != 0 {
            return Some(start + places.trailing_zeros() as usize);
        }
        start += BLOCK;
    }
    let position = content[start..].iter().position(|&other| other == byte)?;
    Some(start + position)
}

/// Returns the pieces of `content` between `byte`, as `bytes.split` does, and has room for so many of them at first.
pub fn split(content: &[u8], byte: u8, expected: usize) -> Vec<&[u8]> {
    let mut pieces = Vec::with_capacity(expected);
    let mut start = 0;
    for (number, block) in content.chunks_exact(BLOCK).enumerate() {
        let mut places = places_of(byte, block);
        while places != 0 {
            let end = BLOCK * number + places.trailing_zeros() as usize;
            pieces.push(&content[start..end]);
            start = end + 1;
            places &= places - 1;
        }
    }
    pieces.extend(content[start..].split(|&other| other == byte));
    pieces
}

/// Returns where the first `needle` is.
///
/// The work is linear where the first byte of `needle` is not in the rest of it, or where `needle` is short.
pub fn find(content: &[u8], needle: &[u8]) -> Option<usize> {
    let (first, second) = match *needle {
        [] => return Some(0),
        [first] => return find_byte(content, first),
        [first, second, ..] => (first, second),
    };
    let mut start = 0;
    loop {
        start += find_pair(&content[start..], first, second)?;
        if content[start..].starts_with(needle) {
            return Some(start);
        }
        start += 1;
    }
}

/// Returns where `first` is followed by `second` for the first time.
fn find_pair(content: &[u8], first: u8, second: u8) -> Option<usize> {
    let behind = content.get(1..)?;
    let mut start = 0;
    for (block, other) in content.chunks_exact(BLOCK).zip(behind.chunks_exact(BLOCK)) {
        let places = places_of(first, block) & places_of(second, other);
        if places != 0 {
            return Some(start + places.trailing_zeros() as usize);
        }
        start += BLOCK;
    }
    let mut pairs = content[start..].iter().zip(&behind[start..]);
    let position = pairs.position(|(&a, &b)| a == first && b == second)?;
    Some(start + position)
}

/// Returns where the first `needle` at `start` or after it is. `start` may be beyond the end.
pub fn find_from(content: &[u8], needle: &[u8], start: usize) -> Option<usize> {
    Some(start + find(content.get(start..)?, needle)?)
}

/// Whether `needle` is in `content`.
pub fn contains(content: &[u8], needle: &[u8]) -> bool {
    find(content, needle).is_some()
}

/// Returns the first `length` bytes of `content`, or all of it where it is shorter.
pub fn up_to(content: &[u8], length: usize) -> &[u8] {
    content.get(..length).unwrap_or(content)
}

/// Returns `content` without its folds: each CRLF is removed.
pub fn without_line_ends(content: &[u8]) -> Cow<'_, [u8]> {
    let mut end = match find(content, b"\r\n") {
        Some(end) => end,
        None => return Cow::Borrowed(content),
    };
    let mut unfolded = Vec::with_capacity(content.len());
    let mut start = 0;
    loop {
        unfolded.extend_from_slice(&content[start..end]);
        start = end + 2;
        match find_from(content, b"\r\n", start) {
            Some(next) => end = next,
            None => break,
        }
    }
    unfolded.extend_from_slice(&content[start..]);
    Cow::Owned(unfolded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_what_python_strips() {
        let spaces: Vec<u8> = (0..=255).filter(|&byte| is_space(byte)).collect();
        assert_eq!(spaces, b"\t\n\x0b\x0c\r ");
        assert_eq!(strip(b" \t a b\r\n"), b"a b");
        assert_eq!(strip(b" \r\n"), b"");
        assert_eq!(strip_end(b" a "), b" a");
    }

    #[test]
    fn places_are_the_same_on_any_processor() {
        for at in 0..BLOCK {
            let mut block = [b'y'; BLOCK];
            block[at] = b'x';
            block[BLOCK - 1 - at] = 0xff;
            for byte in [b'x', b'y', 0xff, 0x7f] {
                assert_eq!(places_of(byte, &block), places_by_words(byte, &block));
            }
        }
    }

    #[test]
    fn a_byte_is_found_in_any_block() {
        for length in 0..100 {
            for at in 0..length {
                // "y" differs from "x" by its lowest bit.
                let mut content = vec![b'a'; length];
                content[at + 1..].fill(b'y');
                content[at] = b'x';
                assert_eq!(find_byte(&content, b'x'), Some(at));
                assert_eq!(find_byte(&content[..at], b'x'), None);
                let pair = at.checked_sub(1);
                assert_eq!(find(&content, b"ax"), pair);
                assert_eq!(find(&content[..at], b"ax"), None);
            }
        }
    }

    #[test]
    fn pieces_are_those_of_the_standard_library() {
        let bytes = [b'\n', b'\n', 0x0b, 0x8a, 0, 0xff, b'a'];
        let mut random = 1_u32;
        for length in 0..200 {
            let content: Vec<u8> = (0..length)
                .map(|_| {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    bytes[(random >> 16) as usize % bytes.len()]
                })
                .collect();
            let expected: Vec<&[u8]> = content.split(|&byte| byte == b'\n').collect();
            assert_eq!(split(&content, b'\n', 3), expected);
        }
    }

    #[test]
    fn the_first_needle_is_found() {
        assert_eq!(find(b"\r\r\n\r\n--b", b"\r\n--"), Some(3));
        assert_eq!(find_from(b"abcabc", b"abc", 1), Some(3));
        assert_eq!(find_from(b"abc", b"c", 7), None);
        assert_eq!(find(b"ab", b"abc"), None);
        assert_eq!(find(b"", b""), Some(0));
    }

    #[test]
    fn folds_are_removed_once() {
        assert_eq!(without_line_ends(b"a\r\n b\r\n\r\n").as_ref(), b"a b");
        assert_eq!(without_line_ends(b"\r\r\n\n").as_ref(), b"\r\n");
        assert_eq!(without_line_ends(b"a\nb\r").as_ref(), b"a\nb\r");
    }
}
