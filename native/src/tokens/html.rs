//! Turns HTML into the text that a reader sees, in three passes that each read every character once.
//!
//! All text here is in lower case. Each function consumes what it has scanned, whatever follows, so no input costs
//! more than its length.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::foreign::HandBack;
use crate::mail::bytes;
use crate::tokens::ascii;
use crate::tokens::html_references::{HTML5, LOW_NUMBERS, WITHOUT_SEMICOLON};
use crate::tokens::unicode;

/// How many different character references of a message are resolved, give or take a thousand.
pub const MAX_REFERENCES: usize = 5_000;
const SAMPLE_PIECES: usize = 1000;
/// More make a number that is no character.
const MAX_DIGITS: usize = 8;
const MAX_NAME_BYTES: usize = 32;
const REPLACEMENT: &str = "\u{fffd}";

const HTML_STARTS: [&str; 4] = ["<!doctype html", "<html", "<body", "<table"];
const START_CHARACTERS: usize = 200;
/// Elements whose content a reader does not see.
const UNSEEN_ELEMENTS: [&str; 3] = ["script", "style", "title"];
const INLINE_ELEMENTS: [&str; 13] = [
    "a", "abbr", "b", "big", "em", "font", "i", "ins", "s", "small", "span", "strong", "tt",
];

/// Returns whether a text part (lower case) is HTML: by its type, or because it begins like HTML.
///
/// `HandBack` where Python must say whether the name of the first element ends.
pub fn is_html(content_type: &[u8], text: &str) -> Result<bool, HandBack> {
    Ok(content_type == b"text/html" || begins_like_html(text)?)
}

fn begins_like_html(text: &str) -> Result<bool, HandBack> {
    let start =
        text[..unicode::offset_of(text, START_CHARACTERS)].trim_start_matches(unicode::is_space);
    match HTML_STARTS.iter().find_map(|name| start.strip_prefix(name)) {
        Some(rest) => Ok(!begins_with_word(rest)?),
        None => Ok(false),
    }
}

/// Returns the text of an HTML source (lower case) without tags, comments, scripts and styles.
///
/// `HandBack` where Python must say whether the name of an element ends.
pub fn visible_text<'a>(
    source: &'a str,
    references: &mut References,
) -> Result<Cow<'a, str>, HandBack> {
    let visible = match replaced(source, "", invisible_end)? {
        Cow::Borrowed(text) => replaced(text, " ", tag_end)?,
        Cow::Owned(text) => Cow::Owned(replaced(&text, " ", tag_end)?.into_owned()),
    };
    Ok(match visible {
        Cow::Borrowed(text) => references.resolve(text),
        Cow::Owned(text) => match references.resolve(&text) {
            Cow::Borrowed(_) => Cow::Owned(text),
            Cow::Owned(resolved) => Cow::Owned(resolved),
        },
    })
}

/// Returns `source` with `replacement` for each match; `match_end` says where one that begins at a "<" ends.
fn replaced<'a>(
    source: &'a str,
    replacement: &str,
    match_end: impl Fn(&str, usize) -> Result<Option<usize>, HandBack>,
) -> Result<Cow<'a, str>, HandBack> {
    let mut result = String::new();
    let mut written = 0;
    let mut start = 0;
    while let Some(at) = bytes::find_byte(&source.as_bytes()[start..], b'<') {
        start += at;
        match match_end(source, start)? {
            Some(end) => {
                if written == 0 {
                    result.reserve(source.len());
                }
                result.push_str(&source[written..start]);
                result.push_str(replacement);
                written = end;
                start = end;
            }
            None => start += 1,
        }
    }
    if written == 0 {
        return Ok(Cow::Borrowed(source));
    }
    result.push_str(&source[written..]);
    Ok(Cow::Owned(result))
}

/// Returns where ends what no reader sees and the "<" at `start` begins: a comment, an unseen element, or a tag of
/// an inline element, on both sides of which the text is joined.
fn invisible_end(source: &str, start: usize) -> Result<Option<usize>, HandBack> {
    let content = source.as_bytes();
    let behind = start + 1;
    if content[behind..].starts_with(b"!--") {
        return Ok(Some(end_of(content, b"-->", behind + 3)));
    }
    let is_end_tag = content.get(behind) == Some(&b'/');
    let name_start = behind + usize::from(is_end_tag);
    let name_bytes = content[name_start..]
        .iter()
        .take_while(|byte| ascii::is_word(**byte))
        .count();
    let name_end = name_start + name_bytes;
    let name = &source[name_start..name_end];
    let is_unseen = !is_end_tag && UNSEEN_ELEMENTS.contains(&name);
    if !(is_unseen || INLINE_ELEMENTS.contains(&name) || name == "u")
        || begins_with_word(&source[name_end..])?
    {
        return Ok(None);
    }
    if !is_unseen {
        return Ok(Some(end_of(content, b">", name_end)));
    }
    let mut end_tag = *b"</______";
    end_tag[2..2 + name.len()].copy_from_slice(name.as_bytes());
    let content_end = end_of(content, &end_tag[..2 + name.len()], name_end);
    Ok(Some(end_of(content, b">", content_end)))
}

/// Returns where the tag ends that the "<" at `start` begins.
fn tag_end(source: &str, start: usize) -> Result<Option<usize>, HandBack> {
    let content = source.as_bytes();
    Ok(match content.get(start + 1) {
        Some(b'/' | b'!' | b'?' | b'a'..=b'z') => Some(end_of(content, b">", start + 2)),
        _ => None,
    })
}

/// Returns the end of the first `needle` at `start` or after it, or the end of `content` where there is none.
fn end_of(content: &[u8], needle: &[u8], start: usize) -> usize {
    bytes::find_from(content, needle, start).map_or(content.len(), |at| at + needle.len())
}

/// Returns whether `\w` matches at the beginning of `text`. `HandBack` for a character that was assigned after Unicode
/// 14.0: whether that is a letter depends on the interpreter.
fn begins_with_word(text: &str) -> Result<bool, HandBack> {
    match text.chars().next() {
        Some(first) if !unicode::is_known(first) => Err(HandBack),
        first => Ok(first.map_or(false, unicode::is_word)),
    }
}

/// The character references of one message, each of which is resolved once.
///
/// At most `MAX_REFERENCES` different ones are resolved: HTML has 2,125 names, and no text has more characters.
#[derive(Debug, Default)]
pub struct References {
    resolved: HashMap<String, Cow<'static, str>>,
}

impl References {
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns `text` with its character references resolved, as `resolve_character_references` does.
    pub fn resolve<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        let content = text.as_bytes();
        let mut start = match bytes::find_byte(content, b'&') {
            Some(start) => start,
            None => return Cow::Borrowed(text),
        };
        // After how many references it is asked whether the limit is reached; far from it that does not matter.
        let step = if self.resolved.len() + (text.len() - start) / 2 >= MAX_REFERENCES {
            reference_step(text)
        } else {
            SAMPLE_PIECES
        };
        let mut result = String::with_capacity(text.len());
        let mut written = 0;
        let mut count = 0;
        let mut is_open = true;
        loop {
            match reference_end(content, start) {
                Some(end) => {
                    if count % step == 0 {
                        is_open = self.resolved.len() < MAX_REFERENCES;
                    }
                    count += 1;
                    result.push_str(&text[written..start]);
                    self.push_resolved(&text[start..end], is_open, &mut result);
                    written = end;
                    start = end;
                }
                None => start += 1,
            }
            match bytes::find_byte(&content[start..], b'&') {
                Some(at) => start += at,
                None => break,
            }
        }
        result.push_str(&text[written..]);
        Cow::Owned(result)
    }

    fn push_resolved(&mut self, reference: &str, is_open: bool, result: &mut String) {
        if let Some(resolved) = self.resolved.get(reference) {
            result.push_str(resolved);
        } else if is_open {
            let resolved = resolve_reference(reference);
            result.push_str(&resolved);
            self.resolved.insert(reference.to_owned(), resolved);
        } else {
            result.push_str(reference);
        }
    }
}

/// Returns 1 where the text between "&" and "&" repeats itself, else `SAMPLE_PIECES`: Python reads such a text piece
/// by piece, and another one in steps of so many references.
fn reference_step(text: &str) -> usize {
    let mut sample: Vec<&str> = text.splitn(SAMPLE_PIECES + 1, '&').skip(1).collect();
    sample.pop();
    let different: HashSet<&str> = sample.iter().copied().collect();
    if different.len() * 4 >= sample.len() {
        SAMPLE_PIECES
    } else {
        1
    }
}

/// Returns `text` with its character references resolved, as `html.unescape` does. A number may have any length.
pub fn resolve_character_references(text: &str) -> Cow<'_, str> {
    References::new().resolve(text)
}

/// Returns where the character reference ends whose "&" is at `start`; none where no reference begins there.
fn reference_end(content: &[u8], start: usize) -> Option<usize> {
    let name = &content[start + 1..];
    if let Some(number) = name.strip_prefix(b"#") {
        let (digits, marks) = match number.first() {
            Some(b'x' | b'X') => (run(&number[1..], u8::is_ascii_hexdigit), 2),
            _ => (run(number, u8::is_ascii_digit), 1),
        };
        let end = start + 1 + marks + digits;
        return (digits > 0).then(|| end + usize::from(content.get(end) == Some(&b';')));
    }
    let letters = run(
        bytes::up_to(name, MAX_NAME_BYTES + 1),
        u8::is_ascii_alphanumeric,
    );
    if (2..=MAX_NAME_BYTES).contains(&letters)
        && name[0].is_ascii_alphabetic()
        && name.get(letters) == Some(&b';')
    {
        return Some(start + letters + 2);
    }
    legacy_name_bytes(bytes::up_to(name, letters)).map(|length| start + 1 + length)
}

fn run(content: &[u8], is_inside: impl Fn(&u8) -> bool) -> usize {
    content.iter().take_while(|byte| is_inside(byte)).count()
}

/// Returns how long the longest beginning of `name` is that is a name without a semicolon.
fn legacy_name_bytes(name: &[u8]) -> Option<usize> {
    // A name that another one begins with comes before it, and only names with the same beginning are between them.
    let behind = WITHOUT_SEMICOLON.partition_point(|known| known.as_bytes() <= name);
    WITHOUT_SEMICOLON[..behind]
        .iter()
        .rev()
        .map(|known| known.as_bytes())
        .take_while(|known| name.get(..2) == known.get(..2))
        .find(|known| name.starts_with(known))
        .map(<[u8]>::len)
}

/// Returns what a name stands for, which may end with a semicolon.
fn html5(name: &[u8]) -> Option<&'static str> {
    let place = HTML5.binary_search_by(|(known, _)| known.as_bytes().cmp(name));
    place.ok().map(|place| HTML5[place].1)
}

/// Returns the characters of what `reference_end` finds; of an unknown name only a known beginning.
fn resolve_reference(reference: &str) -> Cow<'static, str> {
    let name = &reference[1..];
    if let Some(number) = name.strip_prefix('#') {
        return resolve_number(number);
    }
    if let Some(known) = html5(name.as_bytes()) {
        return Cow::Borrowed(known);
    }
    Cow::Owned(match legacy_name_bytes(name.as_bytes()) {
        Some(length) => {
            let known = html5(name[..length].as_bytes()).unwrap_or_default();
            known.to_owned() + &name[length..]
        }
        None => reference.to_owned(),
    })
}

/// Returns the character of a number, which may have an "x" before it and a ";" behind it.
fn resolve_number(number: &str) -> Cow<'static, str> {
    let (digits, radix) = match number.strip_prefix(&['x', 'X'][..]) {
        Some(digits) => (digits, 16),
        None => (number, 10),
    };
    let digits = digits.trim_end_matches(';').trim_start_matches('0');
    let digits = &digits[..digits.len().min(MAX_DIGITS)];
    // The digits are checked; none are left of a zero.
    let number = u64::from_str_radix(digits, radix).unwrap_or(0);
    if let Some(low) = LOW_NUMBERS.get(number as usize) {
        return Cow::Borrowed(low);
    }
    let character = match u32::try_from(number).ok().and_then(char::from_u32) {
        Some(character) => character,
        None => return Cow::Borrowed(REPLACEMENT),
    };
    if (0xfdd0..0xfdf0).contains(&number) || number & 0xfffe == 0xfffe {
        return Cow::Borrowed("");
    }
    Cow::Owned(character.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visible(source: &str) -> String {
        visible_text(source, &mut References::new())
            .unwrap()
            .into_owned()
    }

    fn resolved(text: &str) -> String {
        resolve_character_references(text).into_owned()
    }

    #[test]
    fn text_around_inline_tags_is_joined_and_around_others_separated() {
        assert_eq!(visible("v<b></b>ia<br>gra<p/>x"), "via gra x");
        assert_eq!(visible("<a-b>x<bx>y<b\u{e9}>z"), "x y z");
        assert_eq!(visible("<<b>a>x"), " x");
    }

    #[test]
    fn comments_scripts_and_styles_are_left_out() {
        assert_eq!(visible("a<!-- <b> -->b<!-->c"), "ab");
        assert_eq!(visible("a<script>x</script >b<style x</sty"), "ab");
        assert_eq!(visible("a<title>x<title></title"), "a");
        assert_eq!(visible("a</script>b<scriptx>c"), "a b c");
    }

    #[test]
    fn what_is_no_tag_stays() {
        assert_eq!(visible("1 < 2 <3"), "1 < 2 <3");
        assert_eq!(visible("x<a"), "x");
    }

    #[test]
    fn html_is_known_by_its_type_or_its_beginning() {
        let is_plain_html = |text: &str| is_html(b"text/plain", text);
        assert_eq!(is_html(b"text/html", ""), Ok(true));
        assert_eq!(is_plain_html(" \u{a0}<!doctype html>"), Ok(true));
        assert_eq!(is_plain_html("<body"), Ok(true));
        assert_eq!(is_plain_html("<bodyx"), Ok(false));
        assert_eq!(
            is_plain_html(&(" ".repeat(195) + "<bodyx and more")),
            Ok(true)
        );
    }

    #[test]
    fn a_letter_of_some_interpreters_behind_a_name_hands_html_back() {
        assert_eq!(is_html(b"text/plain", "<body\u{1c89}"), Err(HandBack));
        let result = |source| visible_text(source, &mut References::new()).map(Cow::into_owned);
        assert_eq!(result("<b\u{1c89}>"), Err(HandBack));
        assert_eq!(result("<p\u{1c89}>&#x1c89;"), Ok(" \u{1c89}".to_string()));
    }

    #[test]
    fn references_are_resolved_as_html_unescape_does() {
        assert_eq!(resolved("&amp;&lt&nbsp;&eacute"), "&<\u{a0}\u{e9}");
        assert_eq!(
            resolved("&notit;&notin;&nope;&a;&"),
            "\u{ac}it;\u{2209}&nope;&a;&"
        );
        assert_eq!(
            resolved("&#65;&#x42&#0000000000067;&#xD800;"),
            "ABC\u{fffd}"
        );
        assert_eq!(
            resolved("&#128;&#1;&#xfdd0;&#99999999999;&#;&#x;"),
            "\u{20ac}\u{fffd}&#;&#x;"
        );
        assert_eq!(resolved("&#0;&#x110000;"), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn of_too_many_different_references_the_first_are_resolved() {
        let text: String = (20_000..26_000)
            .map(|number| format!("&#{number};"))
            .collect();
        let resolved = resolved(&text);
        assert!(resolved.contains('\u{61a7}') && resolved.ends_with("&#25999;"));
    }
}
