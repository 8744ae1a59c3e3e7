//! SipHash-1-3 with 64 bits and a key (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012).
//!
//! Who does not know the key cannot choose names that fall together.

/// Returns the hash of `text` under the key.
pub fn siphash13(key: [u64; 2], text: &[u8]) -> u64 {
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let mut blocks = text.chunks_exact(8);
    for block in &mut blocks {
        absorb(&mut v, little_endian(block));
    }
    absorb(
        &mut v,
        little_endian(blocks.remainder()) | (text.len() as u64) << 56,
    );
    v[2] ^= 0xff;
    for _ in 0..3 {
        round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

/// Returns at most eight bytes as a number; bytes that are missing are zeros.
pub fn little_endian(bytes: &[u8]) -> u64 {
    let mut block = [0; 8];
    let length = bytes.len().min(8);
    block[..length].copy_from_slice(&bytes[..length]);
    u64::from_le_bytes(block)
}

fn absorb(v: &mut [u64; 4], block: u64) {
    v[3] ^= block;
    round(v);
    v[0] ^= block;
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
        }
    }

    #[test]
    fn another_key_gives_another_hash() {
        assert_ne!(siphash13([0, 0], b"token"), siphash13([1, 0], b"token"));
        assert_ne!(siphash13([0, 0], b"token"), siphash13([0, 1], b"token"));
    }
}
