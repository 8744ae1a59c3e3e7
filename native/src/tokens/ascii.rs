//! What Python's `str` methods and patterns do with ASCII text. The information separators (0x1c to 0x1f) are white
//! space in `str`, and are not in `bytes`.

/// Returns whether `str.isspace` is true, or `\s` matches in a pattern for text.
pub fn is_space(character: u8) -> bool {
    matches!(character, b'\t'..=b'\r' | 0x1c..=b' ')
}

/// Returns whether `\w` matches.
pub fn is_word(character: u8) -> bool {
    character.is_ascii_alphanumeric() || character == b'_'
}

/// Returns `text` without the characters at both ends for which `is_left_out` is true, as `str.strip` does.
pub fn strip(text: &[u8], is_left_out: impl Fn(u8) -> bool) -> &[u8] {
    let is_kept = |character: &u8| !is_left_out(*character);
    let start = text.iter().position(is_kept).unwrap_or(text.len());
    let end = text
        .iter()
        .rposition(is_kept)
        .map_or(start, |last| last + 1);
    &text[start..end]
}

/// Returns what stands before the first `separator`, and what stands behind it, if there is one: `str.partition`.
pub fn partition(text: &[u8], separator: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|character| *character == separator) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// Returns what stands before the last `separator`, if there is one, and what stands behind it: `str.rpartition`.
pub fn rpartition(text: &[u8], separator: u8) -> (Option<&[u8]>, &[u8]) {
    match text.iter().rposition(|character| *character == separator) {
        Some(at) => (Some(&text[..at]), &text[at + 1..]),
        None => (None, text),
    }
}

/// Returns the runs of characters for which `is_inside` is true, in order: `findall` of a pattern like `[...]+`.
pub fn runs<'a>(
    text: &'a [u8],
    is_inside: impl Fn(u8) -> bool + 'a,
) -> impl Iterator<Item = &'a [u8]> {
    text.split(move |character| !is_inside(*character))
        .filter(|run| !run.is_empty())
}

/// Returns how many bits the number has: `int.bit_length`.
pub fn bit_length(number: usize) -> u32 {
    usize::BITS - number.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_of_information_are_white_space() {
        let spaces: Vec<u8> = (0..128).filter(|c| is_space(*c)).collect();
        assert_eq!(spaces, [9, 10, 11, 12, 13, 0x1c, 0x1d, 0x1e, 0x1f, 0x20]);
    }

    #[test]
    fn both_ends_are_stripped() {
        assert_eq!(strip(b"\x1c a b\t", is_space), b"a b");
        assert_eq!(strip(b" \n", is_space), b"");
    }

    #[test]
    fn text_is_parted_as_in_python() {
        assert_eq!(
            partition(b"a@b@c", b'@'),
            (b"a" as &[u8], Some(b"b@c" as &[u8]))
        );
        assert_eq!(partition(b"abc", b'@'), (b"abc" as &[u8], None));
        assert_eq!(
            rpartition(b"a@b@c", b'@'),
            (Some(b"a@b" as &[u8]), b"c" as &[u8])
        );
        assert_eq!(rpartition(b"abc", b'@'), (None, b"abc" as &[u8]));
    }

    #[test]
    fn zero_has_no_bits() {
        assert_eq!([0, 1, 2, 255, 256].map(bit_length), [0, 1, 2, 8, 9]);
    }
}
