//! Base32 (RFC 4648 6) in lower case, without padding.

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Returns 120 bits as the 24 characters of a message's key.
pub fn encode(digest: &[u8; 15]) -> [u8; 24] {
    let mut text = [0; 24];
    for (five, eight) in digest.chunks_exact(5).zip(text.chunks_exact_mut(8)) {
        let bits = five
            .iter()
            .fold(0_u64, |bits, &byte| bits << 8 | u64::from(byte));
        for (position, letter) in eight.iter_mut().enumerate() {
            *letter = ALPHABET[(bits >> (35 - 5 * position) & 31) as usize];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_test_vector_of_rfc_4648() {
        assert_eq!(
            &super::encode(b"foobafoobafooba"),
            b"mzxw6ytbmzxw6ytbmzxw6ytb"
        );
    }
}
