//! The names of private tokens: keyed hashes in place of words. See `nbstream/tokens/private_tokens.py`.

use super::token_groups::private_prefix;
use crate::table::siphash::siphash24_128;

const DIGEST_BYTES: usize = 12;
const BASE64URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns the names of the tokens in `joined`, which line feeds separate, joined like them.
pub fn hash_tokens(key: [u64; 2], joined: &[u8]) -> Vec<u8> {
    let mut names = Vec::with_capacity(2 * joined.len());
    if joined.is_empty() {
        return names;
    }
    for token in joined.split(|byte| *byte == b'\n') {
        if !names.is_empty() {
            names.push(b'\n');
        }
        names.extend_from_slice(private_prefix(token));
        let [low, high] = siphash24_128(key, token).map(u64::to_le_bytes);
        let mut digest = [0; DIGEST_BYTES];
        digest[..8].copy_from_slice(&low);
        digest[8..].copy_from_slice(&high[..DIGEST_BYTES - 8]);
        let mut encoded = [0; DIGEST_BYTES / 3 * 4];
        for (four, three) in encoded.chunks_exact_mut(4).zip(digest.chunks_exact(3)) {
            let bits = (three[0] as usize) << 16 | (three[1] as usize) << 8 | three[2] as usize;
            four.copy_from_slice(&[18, 12, 6, 0].map(|shift| BASE64URL[bits >> shift & 63]));
        }
        names.extend_from_slice(&encoded);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_prefix_of_its_group() {
        let names = hash_tokens(
            [7, 8],
            b"subject:lunch\nbody:lunch\nurl:a\nurl.path:b\nraw:abcd",
        );
        let prefixes: Vec<&[u8]> = names
            .split(|byte| *byte == b'\n')
            .map(|name| &name[..name.len() - 16])
            .collect();
        let expected: [&[u8]; 5] = [b"subject:#", b"body:#", b"url:#", b"url:#", b"raw:#"];
        assert_eq!(prefixes, expected);
    }

    #[test]
    fn no_tokens_have_no_names() {
        assert_eq!(hash_tokens([7, 8], b""), b"");
    }
}
