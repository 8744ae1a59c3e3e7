//! BLAKE2b (RFC 7693) without a key, for digests of any size.

const IV: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];
const SIGMA: [[usize; 16]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];
const BLOCK: usize = 128;

/// A hash of bytes that come in pieces; the digest has `SIZE` bytes, at most 64.
pub struct Blake2b<const SIZE: usize> {
    state: [u64; 8],
    block: [u8; BLOCK],
    /// How many bytes of the block are filled. The last block is compressed at the end, so a full one waits.
    filled: usize,
    length: u128,
}

impl<const SIZE: usize> Default for Blake2b<SIZE> {
    fn default() -> Self {
        let mut state = IV;
        state[0] ^= 0x0101_0000 ^ SIZE as u64;
        Blake2b {
            state,
            block: [0; BLOCK],
            filled: 0,
            length: 0,
        }
    }
}

impl<const SIZE: usize> Blake2b<SIZE> {
    /// Adds a piece.
    pub fn update(&mut self, mut content: &[u8]) {
        let room = BLOCK - self.filled;
        if content.len() > room {
            let (head, tail) = content.split_at(room);
            self.block[self.filled..].copy_from_slice(head);
            self.length += BLOCK as u128;
            compress(&mut self.state, &self.block, self.length, false);
            self.filled = 0;
            content = tail;
            while content.len() > BLOCK {
                let (head, tail) = content.split_at(BLOCK);
                self.length += BLOCK as u128;
                compress(&mut self.state, head, self.length, false);
                content = tail;
            }
        }
        self.block[self.filled..self.filled + content.len()].copy_from_slice(content);
        self.filled += content.len();
    }

    /// Returns the digest of all pieces.
    pub fn digest(mut self) -> [u8; SIZE] {
        self.length += self.filled as u128;
        self.block[self.filled..].fill(0);
        compress(&mut self.state, &self.block, self.length, true);
        let mut digest = [0; SIZE];
        for (eight, word) in digest.chunks_mut(8).zip(self.state) {
            eight.copy_from_slice(&word.to_le_bytes()[..eight.len()]);
        }
        digest
    }
}

/// Compresses a block into the state (RFC 7693 3.2); `length` is how many bytes there are, those of the block included.
fn compress(state: &mut [u64; 8], block: &[u8], length: u128, is_last: bool) {
    let mut m = [0_u64; 16];
    for (word, bytes) in m.iter_mut().zip(block.chunks_exact(8)) {
        // Eight bytes are always there.
        *word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    }
    let mut v = [0_u64; 16];
    v[..8].copy_from_slice(state);
    v[8..].copy_from_slice(&IV);
    v[12] ^= length as u64;
    v[13] ^= (length >> 64) as u64;
    if is_last {
        v[14] = !v[14];
    }
    // Written out, because all places are constants then, and most of them registers.
    mix_round(&mut v, &m, &SIGMA[0]);
    mix_round(&mut v, &m, &SIGMA[1]);
    mix_round(&mut v, &m, &SIGMA[2]);
    mix_round(&mut v, &m, &SIGMA[3]);
    mix_round(&mut v, &m, &SIGMA[4]);
    mix_round(&mut v, &m, &SIGMA[5]);
    mix_round(&mut v, &m, &SIGMA[6]);
    mix_round(&mut v, &m, &SIGMA[7]);
    mix_round(&mut v, &m, &SIGMA[8]);
    mix_round(&mut v, &m, &SIGMA[9]);
    mix_round(&mut v, &m, &SIGMA[0]);
    mix_round(&mut v, &m, &SIGMA[1]);
    for (i, word) in state.iter_mut().enumerate() {
        *word ^= v[i] ^ v[i + 8];
    }
}

#[inline(always)]
fn mix_round(v: &mut [u64; 16], m: &[u64; 16], s: &[usize; 16]) {
    mix(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);
    mix(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
    mix(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
    mix(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
    mix(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);
    mix(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
    mix(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
    mix(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
}

/// The mixing function G (RFC 7693 3.1).
#[inline(always)]
fn mix(v: &mut [u64; 16], a: usize, b: usize, c: usize, d: usize, x: u64, y: u64) {
    v[a] = v[a].wrapping_add(v[b]).wrapping_add(x);
    v[d] = (v[d] ^ v[a]).rotate_right(32);
    v[c] = v[c].wrapping_add(v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(24);
    v[a] = v[a].wrapping_add(v[b]).wrapping_add(y);
    v[d] = (v[d] ^ v[a]).rotate_right(16);
    v[c] = v[c].wrapping_add(v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(63);
}

/// Returns the digest of `content`.
pub fn blake2b<const SIZE: usize>(content: &[u8]) -> [u8; SIZE] {
    let mut hash = Blake2b::default();
    hash.update(content);
    hash.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_7693() {
        let expected: [u8; 8] = [0xba, 0x80, 0xa5, 0x3f, 0x98, 0x1c, 0x4d, 0x0d];
        assert_eq!(blake2b::<64>(b"abc")[..8], expected);
    }

    #[test]
    fn pieces_have_the_digest_of_the_whole() {
        let content: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for size in [1, 127, 128, 129, 256, 999] {
            let mut hash = Blake2b::<15>::default();
            content.chunks(size).for_each(|piece| hash.update(piece));
            assert_eq!(hash.digest(), blake2b::<15>(&content));
        }
    }
}
