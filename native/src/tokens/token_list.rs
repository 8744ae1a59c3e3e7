//! A list of tokens in one piece of memory, and sets of them that keep only distinct ones.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;

const INITIAL_BYTES: usize = 2048;
const INITIAL_TOKENS: usize = 128;

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
        self.reserve_first();
        let start = self.lines.len();
        write(&mut self.lines);
        let end = self.lines.len();
        if let Some(known) = &mut self.known {
            self.lines.extend_from_slice(&[0; READ_AHEAD]);
            let is_new = known.insert(&self.lines, start..end, |position| {
                token_at(&self.lines, &self.ends, position)
            });
            self.lines.truncate(if is_new { end } else { start });
            if !is_new {
                return false;
            }
        }
        self.end_token(start);
        true
    }

    /// Appends the tokens of `other`, all of them distinct, where they are new. This list is one of distinct tokens
    /// then.
    pub fn unite(&mut self, other: TokenList) {
        if self.is_empty() {
            *self = other;
            return;
        }
        if self.known.is_none() {
            let mut known = KnownTokens::new();
            let mut start = 0;
            for &end in &self.ends {
                known.insert(&self.lines, start..end, |position| {
                    token_at(&self.lines, &self.ends, position)
                });
                start = end + 1;
            }
            self.known = Some(known);
        }
        for token in other.iter() {
            self.push(&[token]);
        }
    }

    /// Appends the tokens of `other`, which are not in this list.
    pub fn append(&mut self, other: &TokenList) {
        debug_assert!(self.known.is_none());
        let start = self.lines.len();
        self.lines.extend(&other.lines);
        self.ends.extend(other.ends.iter().map(|end| start + end));
    }

    fn end_token(&mut self, start: usize) {
        debug_assert!(!self.lines[start..].contains(&b'\n'));
        self.ends.push(self.lines.len());
        self.lines.push(b'\n');
    }

    /// Makes room for as many tokens as most lists have: to grow step by step costs more.
    fn reserve_first(&mut self) {
        if self.ends.capacity() == 0 {
            self.lines.reserve(INITIAL_BYTES);
            self.ends.reserve(INITIAL_TOKENS);
        }
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

/// Distinct tokens that all begin with the same prefix, in order. Only what follows the prefix is compared, and a
/// token that is known already is not copied.
#[derive(Debug)]
pub struct TokenSet {
    prefix: &'static [u8],
    tokens: TokenList,
    known: KnownTokens,
}

impl TokenSet {
    /// Returns an empty set of tokens with this prefix.
    pub fn new(prefix: &'static [u8]) -> Self {
        Self {
            prefix,
            tokens: TokenList::new(),
            known: KnownTokens::new(),
        }
    }

    /// Appends the token that consists of the prefix and `text[rest]`, which contains no line feed, if it is new.
    pub fn insert(&mut self, text: &[u8], rest: Range<usize>) {
        let tokens = &mut self.tokens;
        let (lines, ends, prefix) = (&tokens.lines, &tokens.ends, self.prefix);
        let is_new = self.known.insert(text, rest.clone(), |position| {
            behind(token_at(lines, ends, position), prefix)
        });
        if is_new {
            tokens.reserve_first();
            let start = tokens.lines.len();
            tokens.lines.extend(prefix);
            let behind_prefix = tokens.lines.len();
            // To copy a number of bytes that is known is faster, and most tokens are short.
            match text.get(rest.start..rest.start + COPIED_AT_ONCE) {
                Some(beginning) if rest.len() <= COPIED_AT_ONCE => {
                    tokens.lines.extend(beginning);
                    tokens.lines.truncate(behind_prefix + rest.len());
                }
                _ => tokens.lines.extend(&text[rest]),
            }
            tokens.end_token(start);
        }
    }

    /// Returns how many tokens are in the set.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Returns whether the set has no token.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Returns what follows the prefix in the token at `position`; nothing behind the end.
    pub fn get(&self, position: usize) -> &[u8] {
        behind(self.tokens.get(position), self.prefix)
    }

    /// Returns the tokens, with their prefix.
    pub fn into_tokens(self) -> TokenList {
        self.tokens
    }
}

/// Returns what follows the prefix in a token that has it.
fn behind<'a>(token: &'a [u8], prefix: &[u8]) -> &'a [u8] {
    token.get(prefix.len()..).unwrap_or_default()
}

const COPIED_AT_ONCE: usize = 32;

/// Which tokens a list has: their places by their hash, with open addressing and linear probing, at most half full.
///
/// The hash has a random key of its own in each list, so a sender cannot choose tokens that collide.
#[derive(Debug)]
struct KnownTokens {
    keys: [u64; 2],
    tokens: Vec<KnownToken>,
    /// Hash (upper 32 bits) and position + 1 (lower 32 bits) of a token; 0 is free. The size is a power of two, or 0
    /// before the first token.
    slots: Vec<u64>,
}

/// The first bytes of a token, zeros behind its end, and its size: all of a short token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KnownToken {
    first: u64,
    second: u64,
    size: usize,
}

/// How many bytes of a token are read at once, whatever its size is: branches by its size cost more.
const READ_AHEAD: usize = 16;
/// Enough for most lists: to grow costs more than to clear some kilobytes.
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
            tokens: Vec::new(),
            slots: Vec::new(),
        }
    }

    /// Inserts the token `text[range]`; returns whether it is new. `token_at` returns the token at a position.
    fn insert<'t>(
        &mut self,
        text: &[u8],
        range: Range<usize>,
        token_at: impl Fn(usize) -> &'t [u8],
    ) -> bool {
        if 2 * self.tokens.len() >= self.slots.len() {
            self.grow();
        }
        let token = KnownToken::read(text, &range);
        let hash = self.hash(token, text, &range);
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            let position = (slot as u32 - 1) as usize;
            if (slot >> 32) as u32 == hash
                && self.tokens[position] == token
                && (token.size <= READ_AHEAD || token_at(position) == &text[range.clone()])
            {
                return false;
            }
            at = (at + 1) & mask;
        }
        self.tokens.push(token);
        self.slots[at] = u64::from(hash) << 32 | self.tokens.len() as u64;
        true
    }

    fn grow(&mut self) {
        let mask = (4 * self.slots.len()).max(INITIAL_SLOTS) - 1;
        let mut slots = vec![0; mask + 1];
        for slot in self.slots.iter().filter(|slot| **slot != 0) {
            let mut at = (slot >> 32) as usize & mask;
            while slots[at] != 0 {
                at = (at + 1) & mask;
            }
            slots[at] = *slot;
        }
        self.slots = slots;
        let room = (mask + 1) / 2;
        self.tokens.reserve(room - self.tokens.len());
    }

    /// Returns a hash of a token that depends on the keys: 16 bytes at a time are mixed in by a multiplication, of
    /// whose 128 bits both halves count.
    #[inline(always)] // a call would pass the token through memory
    fn hash(&self, token: KnownToken, text: &[u8], range: &Range<usize>) -> u32 {
        let [first_key, second_key] = self.keys;
        let mut state = first_key ^ token.size as u64;
        state = folded_product(state ^ token.first, second_key ^ token.second);
        if token.size > READ_AHEAD {
            for piece in text[range.start + READ_AHEAD..range.end].chunks(READ_AHEAD) {
                let piece = KnownToken::read(piece, &(0..piece.len()));
                state = folded_product(state ^ piece.first, second_key ^ piece.second);
            }
        }
        (folded_product(state, second_key) >> 32) as u32
    }
}

impl KnownToken {
    #[inline(always)]
    fn read(text: &[u8], range: &Range<usize>) -> Self {
        let size = range.len();
        let (first, second) = match text.get(range.start..range.start + READ_AHEAD) {
            Some(bytes) => (word(&bytes[..8]), word(&bytes[8..])),
            None => {
                let mut bytes = [0; READ_AHEAD];
                let short = &text[range.start..range.end];
                bytes[..short.len()].copy_from_slice(short);
                (word(&bytes[..8]), word(&bytes[8..]))
            }
        };
        Self {
            first: first & low_bytes(size),
            second: second & low_bytes(size.saturating_sub(8)),
            size,
        }
    }
}

/// Returns 8 bytes as a number.
fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// Returns the mask of so many bytes, at most 8.
fn low_bytes(count: usize) -> u64 {
    let bits = 8 * count.min(8) as u32;
    u64::MAX.checked_shr(64 - bits).unwrap_or(0)
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

    #[test]
    fn lists_are_united_without_what_is_there_already() {
        let list = |tokens: &[&str]| {
            let mut list = TokenList::new();
            for token in tokens {
                list.push(&[token.as_bytes()]);
            }
            list
        };
        let mut united = TokenList::new();
        for tokens in [&["b", "a"][..], &["c", "a"], &[], &["d", "c", "b"]] {
            united.unite(list(tokens));
        }
        assert_eq!(united.lines(9), b"b\na\nc\nd\n");
        let mut appended = list(&["b"]);
        appended.append(&united);
        assert_eq!(appended.lines(9), b"b\nb\na\nc\nd\n");
        assert_eq!(appended.get(2), b"a");
    }

    #[test]
    fn tokens_of_a_set_have_its_prefix() {
        let mut set = TokenSet::new(b"a:");
        for length in [3, 0, 70, 3, 8, 70, 16, 0, 17] {
            set.insert(&[b'x'; 71], 0..length);
        }
        let lengths: Vec<usize> = (0..7).map(|position| set.get(position).len()).collect();
        assert_eq!(lengths, [3, 0, 70, 8, 16, 17, 0]);
        assert_eq!((set.len(), set.is_empty()), (6, false));
        assert_eq!(set.into_tokens().lines(2), b"a:xxx\na:\n");
    }
}
