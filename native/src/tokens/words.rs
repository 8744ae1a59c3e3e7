//! Turns text into words: compatibility forms are unified, case is folded, long words are summarised.
//!
//! Everything here reads its input once. What a character is and becomes is in tables; Python folds what the tables
//! do not fold.

use std::borrow::Cow;
use std::ops::Range;

use crate::foreign::{Foreign, HandBack, Question};
use crate::mail::bytes::up_to;
use crate::tokens::ascii;
use crate::tokens::characters::{BOUNDARY, KEPT, LOWER, LOWERED, MAPPED, NORMAL};
use crate::tokens::encoding::{truncate_utf8, MAX_TOKEN_BYTES};
use crate::tokens::normalization::{known, push_case_folded, push_normalized};
use crate::tokens::runs::for_each_run;
use crate::tokens::token_list::{TokenList, TokenSet};
use crate::tokens::unicode;

/// Longer words are summarised: they are mostly encoded data or random padding.
pub const MAX_WORD_CHARACTERS: usize = 24;
/// Words are cut here, so that no two different words become the same token when the token is cut.
const MAX_WORD_BYTES: usize = MAX_TOKEN_BYTES - "body:".len();
/// Text is folded in stretches: at the next boundary, or anywhere where there is none nearby.
const STRETCH_CHARACTERS: usize = 128;
const LONGEST_STRETCH_CHARACTERS: usize = 192;
/// Of more than so many times the limit, words and pieces are chosen before equal pieces are left out.
const CHOSEN_BEFORE: usize = 8;
/// Of more different words of a text so many are chosen before anything else.
const MAX_WRITTEN_WORDS: usize = 1 << 16;
/// Of a long word so many characters are read.
const MAX_SUMMARISED_CHARACTERS: usize = 400;
/// How many characters of a message are made by folding that changes more than the case; no more than its bytes.
pub const MAX_FOLDED_CHARACTERS: i64 = 1 << 18;
/// How many words of a message may be split, and into how many pieces.
pub const MAX_PIECES: i64 = 1 << 15;
const MIN_PIECES: i64 = 64;

/// How much of the work that costs most may still be done for the texts of one message.
#[derive(Debug)]
pub struct WordAllowance {
    characters: i64,
    words: i64,
    pieces: i64,
}

impl WordAllowance {
    pub fn new() -> Self {
        Self::of_message(usize::MAX)
    }

    /// Returns the allowance of a message of so many bytes.
    pub fn of_message(bytes: usize) -> Self {
        Self {
            characters: i64::try_from(bytes).map_or(MAX_FOLDED_CHARACTERS, |bytes| {
                bytes.min(MAX_FOLDED_CHARACTERS)
            }),
            words: MAX_PIECES,
            pieces: MAX_PIECES,
        }
    }
}

impl Default for WordAllowance {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns how many words or pieces may be looked at, and takes them from what is `left`.
fn take(left: &mut i64, wanted: usize) -> usize {
    let allowed = (*left).max(MIN_PIECES).min(wanted as i64);
    *left -= allowed;
    allowed as usize
}

/// Returns the distinct words of `text` in UTF-8, each behind `prefix`; where they are more than `limit`, a spread
/// choice.
///
/// All texts of a message share its `allowance`.
pub fn distinct_words(
    text: &str,
    prefix: &'static [u8],
    limit: usize,
    allowance: &mut WordAllowance,
    foreign: &mut dyn Foreign,
) -> Result<TokenList, HandBack> {
    let text = unicode::without_ignorable(text);
    let is_foreign = !text.is_ascii();
    let (folded, has_unspaced) = if is_foreign {
        fold_pieces(&text, allowance, foreign)?
    } else {
        (Cow::Borrowed(&*text), false)
    };
    // A word and what ends it have two bytes, so a shorter text has not too many.
    let mut words = if folded.len() < 2 * MAX_WRITTEN_WORDS {
        // Only ASCII may have capitals here.
        let lower = lower(folded);
        let mut words = TokenSet::new(prefix);
        for_each_written_word(&lower, |start, end| {
            insert_stripped(&mut words, lower.as_bytes(), start..end)
        });
        words
    } else {
        chosen_words(folded, is_foreign, prefix)
    };
    let is_long = |position: usize| words.get(position).len() > MAX_WORD_CHARACTERS;
    if has_unspaced || (0..words.len()).any(is_long) {
        words = shortened_words(&words, prefix, limit, allowance);
    }
    Ok(spread_choice(words.into_tokens(), limit))
}

/// Returns `text` with its ASCII letters in lower case.
fn lower(text: Cow<str>) -> Cow<str> {
    // A block is searched in a few vector instructions, a text of unknown length byte by byte.
    let has_capitals = |block: &[u8]| block.iter().any(u8::is_ascii_uppercase);
    if !text.as_bytes().chunks(32).any(has_capitals) {
        return text;
    }
    let mut text = text.into_owned();
    text.make_ascii_lowercase();
    Cow::Owned(text)
}

/// Calls `take` with start and end of the words of folded text as they are written, in order, equal ones too.
fn for_each_written_word(text: &str, mut take: impl FnMut(usize, usize)) {
    if text.is_ascii() {
        return for_each_run(text.as_bytes(), &WORD_BYTES, take);
    }
    // Where the next character beyond ASCII is: most runs end before it, and are words.
    let mut foreign = 0;
    for_each_run(text.as_bytes(), &WORD_BYTES, |mut start, end| {
        if foreign < start {
            foreign = start + unicode::ascii_bytes(&text.as_bytes()[start..]);
        }
        if end <= foreign {
            return take(start, end);
        }
        // Some characters beyond ASCII make no word.
        while start < end {
            let word_end = word_end(text, start, end);
            if word_end > start {
                take(start, word_end);
            }
            let behind = text[word_end..end].chars().next();
            start = word_end + behind.map_or(1, char::len_utf8);
        }
    });
}

/// Whether a byte belongs to a word, or to a character beyond ASCII that may.
static WORD_BYTES: [bool; 256] = word_bytes();

const fn word_bytes() -> [bool; 256] {
    let mut bytes = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        bytes[byte] = byte > 127
            || (byte as u8).is_ascii_alphanumeric()
            || is_mark_inside(byte as u8)
            || matches!(byte as u8, b'$' | b'%' | b'!');
        byte += 1;
    }
    bytes
}

const fn is_mark_inside(byte: u8) -> bool {
    matches!(byte, b'\'' | b'.' | b'@' | b'_' | b'-')
}

/// Returns where the word ends that begins at `start`, in a run that ends at `end` of bytes that may belong to words.
fn word_end(text: &str, start: usize, end: usize) -> usize {
    let mut place = start;
    loop {
        let run = &text[place..end];
        place += unicode::ascii_bytes(run.as_bytes());
        match text[place..end].chars().next() {
            Some(character) if is_word(character) => place += character.len_utf8(),
            _ => return place,
        }
    }
}

fn is_word(character: char) -> bool {
    unicode::is_word(character)
        || unicode::is_word_mark(character)
        || matches!(character, '\u{20ac}' | '\u{a3}' | '\u{a5}')
}

/// Inserts the word `text[word]` without the marks at its ends, if anything is left.
fn insert_stripped(words: &mut TokenSet, text: &[u8], word: Range<usize>) {
    let Range { mut start, mut end } = word;
    while start < end && is_mark_inside(text[start]) {
        start += 1;
    }
    while start < end && is_mark_inside(text[end - 1]) {
        end -= 1;
    }
    if start < end {
        words.insert(text, start..end);
    }
}

/// Returns the words of a text that may have more than `MAX_WRITTEN_WORDS`: of different ones so many are chosen.
fn chosen_words(text: Cow<str>, is_foreign: bool, prefix: &'static [u8]) -> TokenSet {
    // Where a text is beyond ASCII, words that differ in their capitals are different until they are chosen.
    let text = if is_foreign { text } else { lower(text) };
    let mut written = TokenSet::new(b"");
    for_each_written_word(&text, |start, end| {
        written.insert(text.as_bytes(), start..end);
    });
    let mut words = TokenSet::new(prefix);
    for position in spread_positions(written.len(), MAX_WRITTEN_WORDS, MAX_WRITTEN_WORDS / 4) {
        let word = written.get(position).to_ascii_lowercase();
        insert_stripped(&mut words, &word, 0..word.len());
    }
    words
}

/// Returns all `items` where they are at most `limit`; else a choice of so many, in order: a quarter of them from
/// each end, and others at equal distances between them.
pub fn spread_choice(items: TokenList, limit: usize) -> TokenList {
    if items.len() <= limit {
        return items;
    }
    let mut chosen = TokenList::new();
    for position in spread_positions(items.len(), limit, limit / 4) {
        chosen.push(&[items.get(position)]);
    }
    chosen
}

/// Returns the positions of a spread choice of so many items: the first and the last `ends`, and others between them.
fn spread_positions(size: usize, limit: usize, ends: usize) -> impl Iterator<Item = usize> {
    let count = limit.min(size);
    (0..count).map(move |number| {
        if size <= limit || number < ends {
            number
        } else if number < limit - ends {
            ends + (number - ends) * (size - 2 * ends) / (limit - 2 * ends)
        } else {
            size - (limit - number)
        }
    })
}

/// What becomes of a word.
enum Split {
    Whole,
    /// Pairs of characters, so many.
    Pairs(usize),
    /// A summary of a long word, and short runs of letters and digits in it.
    Summary(Vec<Range<usize>>),
}

impl Split {
    fn of(word: &str) -> Self {
        if word.len() <= MAX_WORD_CHARACTERS && word.is_ascii() {
            return Self::Whole;
        }
        let length = unicode::length(word);
        if word.chars().next().map_or(false, unicode::is_unspaced) {
            Self::Pairs((length - 1).max(1))
        } else if length <= MAX_WORD_CHARACTERS {
            Self::Whole
        } else {
            Self::Summary(short_runs(word))
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Whole => 1,
            Self::Pairs(count) => *count,
            Self::Summary(runs) => 1 + runs.len(),
        }
    }
}

/// Returns the words with long ones summarised and unspaced ones split; of many a choice, more than `limit`.
fn shortened_words(
    words: &TokenSet,
    prefix: &'static [u8],
    limit: usize,
    allowance: &mut WordAllowance,
) -> TokenSet {
    let ends = limit / 4;
    let wanted = CHOSEN_BEFORE.saturating_mul(limit);
    let count = take(&mut allowance.words, words.len().min(wanted));
    let splits: Vec<(&str, Split)> = spread_positions(words.len(), count, ends.min(count / 4))
        .filter_map(|position| std::str::from_utf8(words.get(position)).ok())
        .map(|word| (word, Split::of(word)))
        .collect();
    let size = splits.iter().map(|(_, split)| split.size()).sum::<usize>();
    let count = take(&mut allowance.pieces, size.min(wanted));
    let mut positions = spread_positions(size, count, ends.min(count / 4)).peekable();
    let mut chosen = TokenSet::new(prefix);
    let mut start = 0;
    for (word, split) in &splits {
        let end = start + split.size();
        let numbers = std::iter::from_fn(|| positions.next_if(|position| *position < end));
        push_pieces(
            &mut chosen,
            word,
            split,
            numbers.map(|position| position - start),
        );
        start = end;
    }
    chosen
}

/// Appends those pieces of a word whose numbers, in order, are in `numbers`.
fn push_pieces(
    chosen: &mut TokenSet,
    word: &str,
    split: &Split,
    numbers: impl Iterator<Item = usize>,
) {
    let mut push = |piece: &str| {
        let cut = truncate_utf8(piece.as_bytes(), MAX_WORD_BYTES);
        chosen.insert(cut, 0..cut.len());
    };
    let mut rest = word;
    let mut skipped = 0;
    for number in numbers {
        match split {
            Split::Whole => push(word),
            Split::Pairs(_) => {
                rest = &rest[unicode::offset_of(rest, number - skipped)..];
                skipped = number;
                push(&rest[..unicode::offset_of(rest, 2)]);
            }
            Split::Summary(runs) => match number.checked_sub(1).and_then(|run| runs.get(run)) {
                Some(run) => push(&word[run.clone()]),
                None => push(&summary(word)),
            },
        }
    }
}

fn summary(word: &str) -> String {
    let tens = unicode::length(word).min(MAX_SUMMARISED_CHARACTERS) / 10;
    format!("~{}{tens}", &word[..unicode::offset_of(word, 1)])
}

/// Returns where the short runs of letters and digits are in the part of a long word that is read.
fn short_runs(word: &str) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let mut start = 0;
    let mut length = 0;
    let read = &word[..unicode::offset_of(word, MAX_SUMMARISED_CHARACTERS)];
    // The end of what is read ends a run, as a mark does.
    let ends = std::iter::once((read.len(), '_'));
    for (offset, character) in read.char_indices().chain(ends) {
        if character != '_' && unicode::is_word(character) {
            if length == 0 {
                start = offset;
            }
            length += 1;
        } else {
            if (1..=MAX_WORD_CHARACTERS).contains(&length) {
                runs.push(start..offset);
            }
            length = 0;
        }
    }
    runs
}

/// Returns `text` with each of its distinct pieces beyond ASCII folded, and whether it has characters of scripts
/// without spaces. Of equal pieces between white space the first stays.
fn fold_pieces<'a>(
    text: &'a str,
    allowance: &mut WordAllowance,
    foreign: &mut dyn Foreign,
) -> Result<(Cow<'a, str>, bool), HandBack> {
    let mut distinct = TokenList::distinct();
    let pieces: Vec<(Range<usize>, bool)> = foreign_pieces(text)
        .map(|piece| (piece.clone(), distinct.push(&[&text.as_bytes()[piece]])))
        .collect();
    if pieces.is_empty() {
        return Ok((Cow::Borrowed(text), false)); // all that is beyond ASCII is white space
    }
    let lines = distinct.lines(distinct.len());
    let joined = std::str::from_utf8(&lines[..lines.len() - 1]).map_err(|_| HandBack)?;
    let folded = match fold_stretches(joined, allowance) {
        Some(folded) => folded,
        None => ask_to_fold(joined, allowance, foreign)?,
    };
    let folded = unicode::without_decorations(&folded);
    let has_unspaced = unicode::beyond_ascii(&folded).any(unicode::is_unspaced);
    let mut folded_pieces = folded.split('\n');
    let mut result = String::with_capacity(text.len());
    let mut written = 0;
    for (piece, is_new) in pieces {
        result.push_str(&text[written..piece.start]);
        if is_new {
            result.push_str(folded_pieces.next().ok_or(HandBack)?);
        }
        written = piece.end;
    }
    result.push_str(&text[written..]);
    Ok((Cow::Owned(result), has_unspaced))
}

/// Returns where the pieces between white space are that have characters beyond ASCII.
fn foreign_pieces(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let content = text.as_bytes();
    let mut position = 0;
    std::iter::from_fn(move || loop {
        let at = position + unicode::ascii_bytes(&content[position..]);
        let character = text[at..].chars().next()?;
        if unicode::is_space(character) {
            position = at + character.len_utf8();
            continue;
        }
        let space = content[position..at]
            .iter()
            .rposition(|byte| ascii::is_space(*byte));
        let start = space.map_or(position, |space| position + space + 1);
        let end = text[at..]
            .find(unicode::is_space)
            .map_or(text.len(), |length| at + length);
        position = end;
        return Some(start..end);
    })
}

/// Returns `text` folded, in stretches as Python folds it: behind the limit of the allowance, case alone. None where
/// the tables do not fold a character.
fn fold_stretches(text: &str, allowance: &mut WordAllowance) -> Option<String> {
    let mut characters_left = allowance.characters;
    let mut folded = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (stretch, behind) = rest.split_at(stretch_bytes(rest));
        rest = behind;
        let before = folded.len();
        let keeps_forms = characters_left <= 0;
        let is_normal = if keeps_forms {
            let characters = stretch.chars().map(known);
            characters.for_each(|character| push_case_folded(character, &mut folded));
            true
        } else {
            push_folded(stretch, &mut folded)
        };
        let length = unicode::length(&folded[before..]);
        let is_longer = length > unicode::length(stretch);
        if keeps_forms && is_longer {
            folded.truncate(before);
            push_lower_case(stretch, &mut folded)?;
        } else if !keeps_forms && (is_longer || !is_normal) {
            characters_left -= length as i64;
        }
    }
    allowance.characters = characters_left;
    Some(folded)
}

/// Returns how many bytes of `text` are folded at once.
fn stretch_bytes(text: &str) -> usize {
    let longest = unicode::offset_of(text, LONGEST_STRETCH_CHARACTERS);
    if longest == text.len() {
        return longest;
    }
    text[..longest]
        .char_indices()
        .skip(STRETCH_CHARACTERS)
        .find(|(_, character)| unicode::class(*character) & BOUNDARY != 0)
        .map_or(longest, |(offset, _)| offset)
}

/// Appends what folding makes of a stretch; returns whether the quick check says that it is in NFKC: see
/// `push_normalized`.
fn push_folded(stretch: &str, folded: &mut String) -> bool {
    let before = folded.len();
    match push_folded_one_by_one(stretch, folded) {
        Some(is_normal) => is_normal,
        None => {
            folded.truncate(before);
            push_normalized(stretch, folded)
        }
    }
}

/// Does the same where each character is folded by itself; None where one may compose with the one before it, or is
/// rare.
fn push_folded_one_by_one(stretch: &str, folded: &mut String) -> Option<bool> {
    let mut is_normal = true;
    for character in stretch.chars() {
        let class = unicode::class(character);
        is_normal &= class & NORMAL != 0 || class == 0;
        if class & KEPT != 0 {
            folded.push(character);
        } else if class == 0 {
            folded.push(known(character));
        } else if class & LOWERED != 0 {
            folded.extend(character.to_lowercase());
        } else if class & MAPPED != 0 {
            folded.push_str(unicode::mapped(character));
        } else {
            return None;
        }
    }
    Some(is_normal)
}

/// Appends `stretch` in lower case. None for a character whose lower case depends on what stands around it.
fn push_lower_case(stretch: &str, lower: &mut String) -> Option<()> {
    for character in stretch.chars() {
        if character == '\u{3a3}' {
            return None;
        }
        let character = known(character);
        if unicode::class(character) & LOWER != 0 {
            lower.push(character);
        } else {
            lower.extend(character.to_lowercase());
        }
    }
    Some(())
}

fn ask_to_fold(
    text: &str,
    allowance: &mut WordAllowance,
    foreign: &mut dyn Foreign,
) -> Result<String, HandBack> {
    let characters = allowance.characters.to_string();
    let mut answer = foreign.ask(
        Question::FoldedPieces,
        &[text.as_bytes(), characters.as_bytes()],
    )?;
    let left = answer.pop().and_then(|left| String::from_utf8(left).ok());
    let left = left.and_then(|left| left.parse().ok());
    allowance.characters = left.ok_or(HandBack)?;
    String::from_utf8(answer.join(&b'\n')).map_err(|_| HandBack)
}

/// Returns `text` in lower case with compatibility forms unified, as `fold_text` does; None where Python must do that.
pub fn fold_text(text: &str) -> Option<String> {
    let text = &*unicode::without_ignorable(text);
    if text.is_ascii() {
        return Some(text.to_ascii_lowercase());
    }
    // Of a longer run of characters that may be combining marks, Python leaves some out.
    let is_mark = |c: &char| !c.is_ascii() && !unicode::is_word(*c) && !unicode::is_space(*c);
    if text.chars().filter(is_mark).count() > MAX_COMBINING_MARKS {
        return None;
    }
    let mut folded = String::with_capacity(text.len());
    push_folded(text, &mut folded);
    Some(unicode::without_decorations(&folded).into_owned())
}

const MAX_COMBINING_MARKS: usize = 16;

/// Returns the outline of `text`: runs of digits become 9, of capitals A, of other letters a. Each byte is one
/// character (ASCII or Latin-1).
pub fn text_shape(text: &[u8], limit: usize) -> Vec<u8> {
    let mut outline = Vec::with_capacity(limit);
    let mut run = 0;
    for byte in up_to(text, 200) {
        let kind = match byte {
            b'0'..=b'9' => b'9',
            b'A'..=b'Z' => b'A',
            b'a'..=b'z' => b'a',
            _ => 0,
        };
        if kind == 0 || kind != run {
            if outline.len() == limit {
                break;
            }
            outline.push(if kind == 0 { *byte } else { kind });
        }
        run = kind;
    }
    outline
}

/// Calls `take` with the pieces of each word of a short ASCII text in lower case, in order; equal words come again.
///
/// This is `distinct_words` for a text so short that no limit of a text or a message is reached.
pub fn short_ascii_words(lower_text: &[u8], mut take: impl FnMut(&[&[u8]])) {
    for written in ascii::runs(lower_text, |byte| WORD_BYTES[usize::from(byte)]) {
        let word = ascii::strip(written, is_mark_inside);
        if word.len() > MAX_WORD_CHARACTERS {
            let tens = (word.len().min(MAX_SUMMARISED_CHARACTERS) / 10).to_string();
            take(&[b"~", &word[..1], tens.as_bytes()]);
            let summarised = up_to(word, MAX_SUMMARISED_CHARACTERS);
            ascii::runs(summarised, |character| character.is_ascii_alphanumeric())
                .filter(|run| run.len() <= MAX_WORD_CHARACTERS)
                .for_each(|run| take(&[run]));
        } else if !word.is_empty() {
            take(&[word]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::NoAnswers;

    fn within(text: &str, limit: usize) -> Vec<String> {
        let words =
            distinct_words(text, b"", limit, &mut WordAllowance::new(), &mut NoAnswers).unwrap();
        let text = |word: &[u8]| String::from_utf8(word.to_vec()).unwrap();
        words.iter().map(text).collect()
    }

    fn words(text: &str) -> Vec<String> {
        within(text, usize::MAX)
    }

    #[test]
    fn words_are_distinct_folded_and_in_order() {
        assert_eq!(words("Buy NOW, buy now: later"), ["buy", "now", "later"]);
        assert_eq!(
            words("(don't) 'user@host.example'. $1.50 !!! 50%"),
            ["don't", "user@host.example", "$1.50", "!!!", "50%"]
        );
        assert_eq!(
            words("a\u{a0}b \u{e9}\u{c9}x, \u{e9}\u{c9}x, \u{20ac}5"),
            ["a", "b", "\u{e9}\u{e9}x", "\u{20ac}5"]
        );
        assert_eq!(words("\u{ff26}\u{ff32}ee \u{df}"), ["free", "ss"]);
        assert_eq!(words("..."), Vec::<String>::new());
    }

    #[test]
    fn long_words_are_summarised_and_unspaced_ones_split() {
        assert_eq!(
            words(&("x".repeat(100) + " " + &"a".repeat(30) + "-offer")),
            ["~x10", "~a3", "offer"]
        );
        assert_eq!(
            words("\u{53d1}\u{7968}\u{4f18} \u{7968}"),
            ["\u{53d1}\u{7968}", "\u{7968}\u{4f18}", "\u{7968}"]
        );
    }

    #[test]
    fn within_a_limit_words_are_spread() {
        assert_eq!(within("a b c d e f g h", 4), ["a", "b", "e", "h"]);
        assert_eq!(
            within(&("x".repeat(30) + " b c d e"), 4),
            ["~x3", "b", "c", "e"]
        );
        assert_eq!(within("a b", 0), Vec::<String>::new());
    }

    #[test]
    fn of_very_many_words_some_are_chosen_first() {
        let text: String = (0..100_000).map(|number| format!("{number} ")).collect();
        assert_eq!(words(&text).len(), MAX_WRITTEN_WORDS);
    }

    #[test]
    fn any_form_is_folded_and_only_some_capitals_behind_the_limit_are_asked_of_python() {
        assert_eq!(words("e\u{301} \u{ff76}\u{ff9e}"), ["\u{e9}", "\u{30ac}"]);
        let mut allowance = WordAllowance::new();
        let text = "\u{3a3}\u{390} ";
        assert!(distinct_words(text, b"", 9, &mut allowance, &mut NoAnswers).is_ok());
        allowance.characters = 0;
        assert!(distinct_words(text, b"", 9, &mut allowance, &mut NoAnswers).is_err());
    }

    #[test]
    fn an_outline_has_one_character_for_each_run() {
        assert_eq!(text_shape(b"Hello WORLD 2026-01!!", 40), b"Aa A 9-9!!");
        assert_eq!(text_shape(b"a1b2c3", 4), b"a9a9");
        assert_eq!(text_shape(b"\xe9A\xff", 24), b"\xe9A\xff");
        assert_eq!(text_shape(&[b'a'; 300], 24), b"a");
    }

    #[test]
    fn words_are_stripped_and_long_ones_summarised() {
        let mut words: Vec<String> = Vec::new();
        let long = format!("{}.{}", "x".repeat(30), "abc");
        short_ascii_words(format!("it's 50% -- 'so' {long}").as_bytes(), |pieces| {
            words.push(String::from_utf8(pieces.concat()).unwrap());
        });
        assert_eq!(words, ["it's", "50%", "so", "~x3", "abc"]);
    }
}
