//! Text in the form NFKC (Unicode Standard Annex #15) with its case folded, as Python makes it of a short text.

use crate::tokens::characters::{CASELESS, DECOMPOSED as HAS_FORM, MARK, NORMAL, SECOND};
use crate::tokens::normalization_tables::{CASE_FOLDED, COMPOSED, DECOMPOSED, MARKS};
use crate::tokens::unicode;

const REPLACEMENT: char = '\u{fffd}';

// The syllables of Hangul are computed (The Unicode Standard, section 3.12).
const SYLLABLES: u32 = 0xac00;
const LEADS: u32 = 0x1100;
const VOWELS: u32 = 0x1161;
const TRAILS: u32 = 0x11a7; // one before the first
const LEAD_COUNT: u32 = 19;
const VOWEL_COUNT: u32 = 21;
const TRAIL_COUNT: u32 = 28;
const SYLLABLE_COUNT: u32 = LEAD_COUNT * VOWEL_COUNT * TRAIL_COUNT;

/// Appends `text` in NFKC with its case folded; returns whether the quick check says that it is in NFKC already
/// (Unicode Standard Annex #15, section 9): Python returns the very same object then.
pub fn push_normalized(text: &str, folded: &mut String) -> bool {
    let mut characters: Vec<(char, u8)> = Vec::with_capacity(text.len());
    let mut is_normal = true;
    let mut order_before = 0;
    for character in text.chars().map(known) {
        let order = combining_class(character);
        is_normal &= unicode::class(character) & NORMAL != 0;
        is_normal &= order == 0 || order_before <= order;
        order_before = order;
        push_decomposed(character, &mut characters);
    }
    for marks in characters.split_mut(|(_, order)| *order == 0) {
        marks.sort_by_key(|(_, order)| *order);
    }
    compose(&mut characters);
    characters
        .iter()
        .for_each(|(character, _)| push_case_folded(*character, folded));
    is_normal
}

/// Appends what folding of case makes of a character.
pub fn push_case_folded(character: char, folded: &mut String) {
    if unicode::class(character) & CASELESS != 0 {
        folded.push(character);
    } else {
        match form(&CASE_FOLDED, character) {
            Some(form) => folded.push_str(form),
            None => folded.extend(character.to_lowercase()),
        }
    }
}

/// Returns the character, or the one that replaces characters that were assigned later than the tables.
pub fn known(character: char) -> char {
    if unicode::is_known(character) {
        character
    } else {
        REPLACEMENT
    }
}

fn form(forms: &[(char, &'static str)], character: char) -> Option<&'static str> {
    let place = forms.binary_search_by_key(&character, |(from, _)| *from);
    place.ok().map(|place| forms[place].1)
}

/// Returns the canonical combining class: 0 of a starter, and of a mark its place in the canonical order.
fn combining_class(character: char) -> u8 {
    if unicode::class(character) & MARK == 0 {
        return 0;
    }
    let behind = MARKS.partition_point(|(first, _, _)| *first <= character);
    MARKS[behind - 1].2
}

fn push_decomposed(character: char, characters: &mut Vec<(char, u8)>) {
    let mut push = |character| characters.push((character, combining_class(character)));
    let number = u32::from(character).wrapping_sub(SYLLABLES);
    if number < SYLLABLE_COUNT {
        let vowel_and_trail = number % (VOWEL_COUNT * TRAIL_COUNT);
        let parts = [
            LEADS + number / (VOWEL_COUNT * TRAIL_COUNT),
            VOWELS + vowel_and_trail / TRAIL_COUNT,
            TRAILS + number % TRAIL_COUNT,
        ];
        let count = if parts[2] == TRAILS { 2 } else { 3 };
        parts[..count]
            .iter()
            .copied()
            .filter_map(char::from_u32)
            .for_each(push);
    } else if unicode::class(character) & HAS_FORM == 0 {
        push(character);
    } else {
        form(&DECOMPOSED, character)
            .unwrap_or_default()
            .chars()
            .for_each(push);
    }
}

/// Composes canonically: each character with the last starter (combining class 0) before it, if it is not blocked: no
/// character between them has the same class or a higher one.
fn compose(characters: &mut Vec<(char, u8)>) {
    let mut written = 0;
    let mut first: Option<usize> = None;
    let mut order_before = 0;
    for place in 0..characters.len() {
        let (character, order) = characters[place];
        if let Some(first) = first {
            let is_open = unicode::class(character) & SECOND != 0
                && (first + 1 == written || order_before < order);
            let united = is_open
                .then(|| united(characters[first].0, character))
                .flatten();
            if let Some(united) = united {
                characters[first].0 = united;
                continue;
            }
        }
        if order == 0 {
            first = Some(written);
        }
        order_before = order;
        characters[written] = (character, order);
        written += 1;
    }
    characters.truncate(written);
}

fn united(first: char, second: char) -> Option<char> {
    let (lead, vowel) = (
        u32::from(first).wrapping_sub(LEADS),
        u32::from(second).wrapping_sub(VOWELS),
    );
    if lead < LEAD_COUNT && vowel < VOWEL_COUNT {
        return char::from_u32(SYLLABLES + (lead * VOWEL_COUNT + vowel) * TRAIL_COUNT);
    }
    let (syllable, trail) = (
        u32::from(first).wrapping_sub(SYLLABLES),
        u32::from(second).wrapping_sub(TRAILS),
    );
    if syllable < SYLLABLE_COUNT && syllable % TRAIL_COUNT == 0 && (1..TRAIL_COUNT).contains(&trail)
    {
        return char::from_u32(u32::from(first) + trail);
    }
    let place = COMPOSED.binary_search_by_key(&(first, second), |(pair, _)| *pair);
    place.ok().map(|place| COMPOSED[place].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalized(text: &str) -> (String, bool) {
        let mut folded = String::new();
        let is_normal = push_normalized(text, &mut folded);
        (folded, is_normal)
    }

    #[test]
    fn forms_are_unified_and_case_is_folded() {
        for (text, expected, is_normal) in [
            ("A\u{e9}", "a\u{e9}", true),
            ("\u{fb01}\u{df}", "fiss", false),
            ("\u{ff76}\u{ff9e}", "\u{30ac}", false),
            ("E\u{301}", "\u{e9}", false),
            ("\u{130}", "i\u{307}", true),
            ("\u{1f6dc}", "\u{fffd}", true),
            ("\u{2f800}", "\u{4e3d}", false),
        ] {
            assert_eq!(
                normalized(text),
                (expected.to_string(), is_normal),
                "{text}"
            );
        }
    }

    #[test]
    fn marks_are_sorted_before_they_unite() {
        // A dot below (220) comes before a dot above (230), and a second mark of a class is blocked.
        assert_eq!(
            normalized("s\u{307}\u{323}"),
            ("\u{1e69}".to_string(), false)
        );
        assert_eq!(
            normalized("a\u{302}\u{302}"),
            ("\u{e2}\u{302}".to_string(), false)
        );
        assert_eq!(
            normalized("q\u{307}\u{323}"),
            ("q\u{323}\u{307}".to_string(), false)
        );
    }

    #[test]
    fn syllables_of_hangul_are_computed() {
        for syllable in ["\u{ac00}", "\u{ac01}", "\u{d7a3}"] {
            assert_eq!(normalized(syllable), (syllable.to_string(), true));
        }
        assert_eq!(normalized("\u{1100}\u{1161}\u{11a8}").0, "\u{ac01}");
        assert_eq!(normalized("\u{ac01}\u{11a8}").0, "\u{ac01}\u{11a8}");
    }
}
