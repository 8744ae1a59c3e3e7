//! A list of tokens in one piece of memory, and a set of them that keeps only distinct ones.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// Tokens in order, each followed by a line feed in one piece of memory: no token contains a line feed, so the
/// joined form that is stored and looked up is here already.
#[derive(Debug, Default)]
pub struct TokenList {
    /// The tokens, each followed by a line feed.
    lines: Vec<u8>,
    /// Where the line feed of each token is.
    ends: Vec<usize>,
    known: Option<KnownTokens>,
}

impl TokenList {
    /// Returns an empty list that keeps all tokens, equal ones too.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty list that keeps only distinct tokens: what is in the list already is left out.
    pub fn distinct() -> Self {
        Self {
            known: Some(KnownTokens::new()),
            ..Self::default()
        }
    }

    /// Appends the token that consists of these pieces, which contain no line feed. Returns whether it is new to a
    /// list of distinct tokens; any other list takes every token.
    pub fn push(&mut self, pieces: &[&[u8]]) -> bool {
        self.push_with(|token| pieces.iter().for_each(|piece| token.extend(*piece)))
    }

    /// Appends the token that `write` appends to its argument: no line feed, and nothing before it is changed.
    ///
    /// The argument ends with the tokens that are in the list, so `write` sees where its token begins by `len()`.
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let start = self.lines.len();
        write(&mut self.lines);
        let end = self.lines.len();
        debug_assert!(!self.lines[start..].contains(&b'\n'));
        if let Some(known) = &mut self.known {
            if !known.insert(&self.lines, &self.ends, start) {
                self.lines.truncate(start);
                return false;
            }
        }
        self.lines.push(b'\n');
        self.ends.push(end);
        true
    }

    /// Returns how many tokens are in the list.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether the list has no token.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the token at `position`; an empty one behind the end.
    pub fn get(&self, position: usize) -> &[u8] {
        token_at(&self.lines, &self.ends, position)
    }

    /// Returns the tokens in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(move |position| self.get(position))
    }

    /// Returns the first `count` tokens, each followed by a line feed; all of them where they are fewer.
    pub fn lines(&self, count: usize) -> &[u8] {
        match count.min(self.len()).checked_sub(1) {
            Some(last) => &self.lines[..=self.ends[last]],
            None => &[],
        }
    }
}

/// Returns the token at `position` of a list; an empty one behind the end.
fn token_at<'a>(lines: &'a [u8], ends: &[usize], position: usize) -> &'a [u8] {
    let start = position
        .checked_sub(1)
        .and_then(|before| ends.get(before))
        .map_or(0, |end| end + 1);
    ends.get(position).map_or(&[], |end| &lines[start..*end])
}

/// Where the tokens of a list are, by their hash: open addressing with linear probing, at most half full.
///
/// The hash has a random key of its own in each list, so a sender cannot choose tokens that collide.
#[derive(Debug)]
struct KnownTokens {
    keys: [u64; 2],
    /// Hash (upper 32 bits) and position + 1 (lower 32 bits) of a token; 0 is free. The size is a power of two.
    slots: Vec<u64>,
}

const INITIAL_SLOTS: usize = 1024;

impl KnownTokens {
    fn new() -> Self {
        let random = RandomState::new();
        let key = |number: u64| {
            let mut hasher = random.build_hasher();
            hasher.write_u64(number);
            hasher.finish()
        };
        Self {
            keys: [key(0), key(1) | 1],
            slots: vec![0; INITIAL_SLOTS],
        }
    }

    /// Inserts the token `lines[start..]`, which will be the next one of the list; returns whether it is new.
    fn insert(&mut self, lines: &[u8], ends: &[usize], start: usize) -> bool {
        let token = &lines[start..];
        let hash = self.hash(token);
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            let position = (slot as u32 - 1) as usize;
            if (slot >> 32) as u32 == hash && token_at(lines, ends, position) == token {
                return false;
            }
            at = (at + 1) & mask;
        }
        self.slots[at] = u64::from(hash) << 32 | (ends.len() as u64 + 1);
        if 2 * (ends.len() + 1) > self.slots.len() {
            self.grow();
        }
        true
    }

    fn grow(&mut self) {
        let mask = 2 * self.slots.len() - 1;
        let mut slots = vec![0; mask + 1];
        for slot in self.slots.iter().filter(|slot| **slot != 0) {
            let mut at = (slot >> 32) as usize & mask;
            while slots[at] != 0 {
                at = (at + 1) & mask;
            }
            slots[at] = *slot;
        }
        self.slots = slots;
    }

    /// Returns a hash of `token` that depends on the keys: each 8 bytes are mixed in by a multiplication, of whose
    /// 128 bits both halves count. The last 8 bytes may overlap those before them.
    fn hash(&self, token: &[u8]) -> u32 {
        let mut state = self.keys[0] ^ token.len() as u64;
        let last = match token.len().checked_sub(8) {
            Some(start) => {
                for at in (0..start).step_by(8) {
                    state = folded_product(state ^ word_at(token, at), self.keys[1]);
                }
                word_at(token, start)
            }
            None => token
                .iter()
                .fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        state = folded_product(state ^ last, self.keys[1]);
        (folded_product(state, self.keys[1]) >> 32) as u32
    }
}

/// Returns the 8 bytes of `token` at `start` as a number; 0 where there are fewer.
fn word_at(token: &[u8], start: usize) -> u64 {
    let bytes = token
        .get(start..start + 8)
        .and_then(|word| word.try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}

fn folded_product(first: u64, second: u64) -> u64 {
    let product = u128::from(first) * u128::from(second);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_tokens_in_order() {
        let mut list = TokenList::new();
        for token in ["b", "a", "", "b"] {
            assert!(list.push(&[token.as_bytes()]));
        }
        assert_eq!(
            list.iter().collect::<Vec<_>>(),
            [b"b" as &[u8], b"a", b"", b"b"]
        );
        assert_eq!(list.lines(9), b"b\na\n\nb\n");
        assert_eq!(list.lines(2), b"b\na\n");
        assert_eq!(list.lines(0), b"");
        assert_eq!(list.get(4), b"");
    }

    #[test]
    fn a_distinct_list_leaves_out_what_it_has() {
        let mut list = TokenList::distinct();
        assert!(list.push(&[b"subject:", b"word"]));
        assert!(!list.push(&[b"subject", b":word"]));
        assert!(list.push(&[b""]));
        assert!(!list.push(&[]));
        assert_eq!(list.lines(9), b"subject:word\n\n");
    }

    #[test]
    fn a_distinct_list_grows() {
        let mut list = TokenList::distinct();
        for round in 0..2 {
            for number in 0..10_000_u32 {
                let token = format!("{:>width$}", number, width = number as usize % 70);
                assert_eq!(list.push(&[token.as_bytes()]), round == 0);
            }
        }
        assert_eq!(list.len(), 10_000);
        assert_eq!(list.get(9_999).len(), 9_999 % 70);
    }
}
