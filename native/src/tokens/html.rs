//! Turns HTML into the text that a mail program shows: see `nbstream/tokens/html.py`.
//!
//! All text here is in lower case. Each function consumes what it has scanned, whatever follows, so no input costs
//! more than its length.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::mail::bytes;
use crate::tokens::html_references::{HTML5, LOW_NUMBERS, WITHOUT_SEMICOLON};

/// How many different character references of a message are resolved, give or take a thousand.
pub const MAX_REFERENCES: usize = 5_000;
const SAMPLE_PIECES: usize = 1000;
/// More make a number that is no character.
const MAX_DIGITS: usize = 8;
const MAX_NAME_BYTES: usize = 32;
const REPLACEMENT: &str = "\u{fffd}";

/// The properties of styles that hide text, and with which value; behind a zero no other digit follows.
const HIDING_STYLES: [(&str, &str); 5] = [
    ("display", "none"),
    ("visibility", "hidden"),
    ("font-size", "0"),
    ("opacity", "0"),
    ("mso-hide", "all"),
];

/// Returns whether the element separates words: `BREAKING_ELEMENTS`.
fn is_breaking(name: &[u8]) -> bool {
    match name {
        b"address" | b"article" | b"aside" | b"blockquote" | b"body" | b"br" | b"button"
        | b"caption" | b"center" | b"col" | b"colgroup" | b"dd" | b"details" | b"dialog"
        | b"dir" | b"div" | b"dl" | b"dt" | b"fieldset" | b"figcaption" | b"figure" | b"footer"
        | b"form" | b"frame" | b"frameset" | b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6"
        | b"header" | b"hgroup" | b"hr" | b"html" | b"iframe" | b"input" | b"legend" | b"li"
        | b"listing" | b"main" | b"marquee" | b"menu" | b"nav" | b"object" | b"ol"
        | b"optgroup" | b"option" | b"p" | b"plaintext" | b"pre" | b"search" | b"section"
        | b"select" | b"summary" | b"table" | b"tbody" | b"td" | b"textarea" | b"tfoot" | b"th"
        | b"thead" | b"tr" | b"ul" | b"video" | b"xmp" => true,
        _ => false,
    }
}

/// Returns whether the content of the element is characters up to its end tag, and if so, whether a reader sees it.
fn is_raw_shown(name: &[u8]) -> Option<bool> {
    match name {
        b"script" | b"style" | b"title" | b"iframe" | b"noembed" | b"noframes" => Some(false),
        b"textarea" | b"xmp" | b"plaintext" => Some(true),
        _ => None,
    }
}

/// Within these no element is raw text, and CDATA is text: see `nbstream/tokens/html.py`.
fn is_foreign_element(name: &[u8]) -> bool {
    matches!(name, b"svg" | b"math")
}

const CDATA_START: &[u8] = b"<![cdata[";

/// Returns the text of an HTML source (lower case) that is in no tag, comment, script or style sheet.
pub fn visible_text<'a>(source: &'a str, references: &mut References) -> Cow<'a, str> {
    match without_markup(source) {
        Cow::Borrowed(text) => references.resolve(text),
        Cow::Owned(text) => match references.resolve(&text) {
            Cow::Borrowed(_) => Cow::Owned(text),
            Cow::Owned(resolved) => Cow::Owned(resolved),
        },
    }
}

/// Returns the properties by which styles of an HTML source (lower case) hide text, in the order of the table.
pub fn hiding_styles(source: &str) -> impl Iterator<Item = &'static str> + '_ {
    HIDING_STYLES
        .iter()
        .filter(move |(name, value)| {
            has_style(source.as_bytes(), name.as_bytes(), value.as_bytes())
        })
        .map(|(name, _)| *name)
}

fn has_style(content: &[u8], name: &[u8], value: &[u8]) -> bool {
    let mut start = 0;
    while let Some(at) = bytes::find_from(content, name, start) {
        start = at + name.len();
        let colon = behind_space(content, start);
        if content.get(colon) != Some(&b':') {
            continue;
        }
        if let Some(rest) = content[behind_space(content, colon + 1)..].strip_prefix(value) {
            let goes_on = matches!(rest.first(), Some(b'.' | b'0'..=b'9'));
            if value != b"0" || !goes_on {
                return true;
            }
        }
    }
    false
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | 0x0c | b'\r' | b' ')
}

/// Returns where the white space ends that begins at `start`.
fn behind_space(content: &[u8], start: usize) -> usize {
    let spaces = content[start..].iter().take_while(|byte| is_space(**byte));
    start + spaces.count()
}

fn without_markup(source: &str) -> Cow<'_, str> {
    let content = source.as_bytes();
    let mut text = String::new();
    let mut written = 0; // what comes before this is in `text`
    let mut start = 0;
    let mut is_foreign = false;
    while let Some(at) = bytes::find_byte(&content[start..], b'<') {
        start += at;
        let markup = markup_at(content, start, is_foreign);
        is_foreign = markup.is_foreign;
        if markup.end == start {
            start += 1;
            continue;
        }
        if written == 0 {
            text.reserve(source.len());
        }
        text.push_str(&source[written..start]);
        if markup.is_breaking {
            text.push(' ');
        }
        text.push_str(&source[markup.shown_start..markup.shown_end]);
        written = markup.end;
        start = markup.end;
    }
    if written == 0 {
        return Cow::Borrowed(source);
    }
    text.push_str(&source[written..]);
    Cow::Owned(text)
}

/// Markup and what it shows: a separator of words, and some of what was read.
struct Markup {
    end: usize,
    is_breaking: bool,
    shown_start: usize,
    shown_end: usize,
    /// Whether what follows is SVG or MathML.
    is_foreign: bool,
}

/// Returns the markup that the "<" at `start` begins; where it begins none, it ends at `start`.
fn markup_at(content: &[u8], start: usize, is_foreign: bool) -> Markup {
    let hidden = |end| Markup {
        end,
        is_breaking: false,
        is_foreign,
        shown_start: end,
        shown_end: end,
    };
    let is_end_tag = content.get(start + 1) == Some(&b'/');
    let name_start = start + 1 + usize::from(is_end_tag);
    if !content
        .get(name_start)
        .map_or(false, u8::is_ascii_lowercase)
    {
        if is_foreign && content[start..].starts_with(CDATA_START) {
            return hidden(start + CDATA_START.len());
        }
        return hidden(declaration_end(content, start));
    }
    let is_in_name = |byte: &&u8| !is_space(**byte) && !matches!(byte, b'/' | b'>');
    let name_end = name_start + content[name_start..].iter().take_while(is_in_name).count();
    let name = &content[name_start..name_end];
    let tag_end = tag_end(content, name_end);
    let mut markup = hidden(tag_end);
    markup.is_breaking = is_breaking(name);
    if is_foreign_element(name) {
        markup.is_foreign = !is_end_tag;
        return markup;
    }
    let raw = is_raw_shown(name);
    if is_foreign && (raw.is_some() || !markup.is_breaking) {
        return markup;
    }
    markup.is_foreign = false;
    if is_end_tag || tag_end == content.len() {
        return markup;
    }
    if let Some(is_shown) = raw {
        markup.end = raw_text_end(content, name, tag_end);
        if is_shown {
            markup.shown_end = markup.end;
        }
    }
    markup
}

/// Returns the end of the tag of which `content` was read up to `place`.
fn tag_end(content: &[u8], mut place: usize) -> usize {
    let until = |start: usize, is_end: fn(u8) -> bool| {
        let rest = content.get(start..).unwrap_or_default();
        start + rest.iter().take_while(|byte| !is_end(**byte)).count()
    };
    loop {
        place = until(place, |byte| !is_space(byte) && byte != b'/');
        match content.get(place) {
            None => return content.len(),
            Some(b'>') => return place + 1,
            Some(_) => {}
        }
        // A name may begin with "=".
        place = until(place + 1, |byte| {
            is_space(byte) || matches!(byte, b'/' | b'>' | b'=')
        });
        let equals = behind_space(content, place);
        if content.get(equals) != Some(&b'=') {
            continue;
        }
        place = behind_space(content, equals + 1);
        place = match content.get(place) {
            Some(quote @ (b'"' | b'\'')) => {
                let length = bytes::find_byte(&content[place + 1..], *quote);
                length.map_or(content.len(), |length| place + length + 2)
            }
            _ => until(place, |byte| is_space(byte) || byte == b'>'),
        };
    }
}

/// Returns the end of the comment, bogus comment, doctype or `</>` at `start`, which is `start` without one.
fn declaration_end(content: &[u8], start: usize) -> usize {
    let rest = &content[start..];
    if rest.starts_with(b"<!--") {
        for empty in [&b"<!-->"[..], b"<!--->"] {
            if rest.starts_with(empty) {
                return start + empty.len();
            }
        }
        return comment_end(content, start + 4);
    }
    match rest.get(1) {
        Some(b'!' | b'?') => end_of(content, b">", start + 2),
        Some(b'/') if rest.len() > 2 => end_of(content, b">", start + 2),
        _ => start,
    }
}

/// Returns where the comment ends whose text begins at `start`: behind "-->" or "--!>".
fn comment_end(content: &[u8], mut start: usize) -> usize {
    while let Some(at) = bytes::find_from(content, b"--", start) {
        match &content[at + 2..] {
            [b'>', ..] => return at + 3,
            [b'!', b'>', ..] => return at + 4,
            _ => start = at + 1,
        }
    }
    content.len()
}

/// Returns where the end tag of the raw text element begins whose content begins at `start`.
fn raw_text_end(content: &[u8], name: &[u8], start: usize) -> usize {
    match name {
        b"plaintext" => content.len(),
        b"script" => script_end(content, start),
        _ => {
            let end_tag = [b"</", name].concat();
            let mut place = start;
            while let Some(at) = bytes::find_from(content, &end_tag, place) {
                place = at + end_tag.len();
                if ends_name(content, place) {
                    return at;
                }
            }
            content.len()
        }
    }
}

/// Returns whether the name of a tag ends at `place`, and something follows it.
fn ends_name(content: &[u8], place: usize) -> bool {
    content
        .get(place)
        .map_or(false, |byte| is_space(*byte) || matches!(byte, b'/' | b'>'))
}

/// Returns where the end tag begins of the script whose content begins at `start`: see `_script_end` in Python.
fn script_end(content: &[u8], start: usize) -> usize {
    let mut escapes = 0;
    let mut place = start;
    while place < content.len() {
        let rest = &content[place..];
        let length = rest
            .iter()
            .take_while(|byte| !matches!(byte, b'<' | b'-'))
            .count();
        let rest = &rest[length..];
        let at = place + length;
        place = at + 1;
        if rest.starts_with(b"<!--") {
            escapes = escapes.max(1);
            place = at + 2; // its dashes may be those of "-->"
        } else if rest.starts_with(b"-->") {
            escapes = 0;
            place = at + 3;
        } else if rest.starts_with(b"<script") && ends_name(content, at + 7) {
            escapes = (2 * escapes).min(2);
            place = at + 7;
        } else if rest.starts_with(b"</script") && ends_name(content, at + 8) {
            if escapes < 2 {
                return at;
            }
            escapes = 1;
            place = at + 8;
        }
    }
    content.len()
}

/// Returns the end of the first `needle` at `start` or after it, or the end of `content` where there is none.
fn end_of(content: &[u8], needle: &[u8], start: usize) -> usize {
    bytes::find_from(content, needle, start).map_or(content.len(), |at| at + needle.len())
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
        visible_text(source, &mut References::new()).into_owned()
    }

    fn resolved(text: &str) -> String {
        resolve_character_references(text).into_owned()
    }

    #[test]
    fn text_around_tags_is_joined_unless_the_element_is_a_block() {
        assert_eq!(visible("v<b></b>ia<br>gra<p/>x"), "via gra x");
        assert_eq!(visible("x<wbr>y<a-b>z<mark>!</mark>"), "xyz!");
        assert_eq!(visible("<<b>a>x"), "<a>x");
    }

    #[test]
    fn a_tag_ends_where_no_quoted_value_goes_on() {
        assert_eq!(visible("<a b=\"<!--\">x<a b='>' c=>y<a =\">z"), "xyz");
        assert_eq!(visible("a<b c=d\">x<b c/d='>'>y<b c = '>'e>z"), "axyz");
        assert_eq!(visible("a<b c=\">x"), "a");
    }

    #[test]
    fn comments_end_as_the_standard_says() {
        assert_eq!(
            visible("a<!-- <b> -->b<!-->c<!--->d<!--x--!>e<!----!>f"),
            "abcdef"
        );
        assert_eq!(
            visible("a<!x>b<?y>c</ z>d</>e<!doctype \">\">f"),
            "abcde\">f"
        );
        assert_eq!(visible("a<!--x->b"), "a");
    }

    #[test]
    fn raw_text_ends_at_its_own_end_tag() {
        assert_eq!(visible("a<script>x</script >b<style x</sty"), "ab");
        assert_eq!(visible("a<style>x</styles></style\n>b"), "ab");
        assert_eq!(visible("a</script>b<scriptx>c"), "abc");
        assert_eq!(visible("a<textarea><b>x</textarea>b"), "a <b>x b");
        assert_eq!(visible("a<plaintext><b></plaintext>"), "a <b></plaintext>");
        assert_eq!(
            visible("<script><!--<script></script>x</script>y<script><!--><script></script>z"),
            "yz"
        );
        assert_eq!(visible("<script><!--<script>--></script>z"), "z");
    }

    #[test]
    fn what_is_no_tag_stays() {
        assert_eq!(visible("1 < 2 <3 </"), "1 < 2 <3 </");
        assert_eq!(visible("x<a"), "x");
    }

    #[test]
    fn styles_that_hide_are_named() {
        let names = |source| hiding_styles(source).collect::<Vec<_>>();
        assert_eq!(
            names("opacity: 0; font-size:0.9em; display :\nnone"),
            ["display", "opacity"]
        );
        assert_eq!(
            names("display: block; opacity:00; font-size: 0px"),
            ["font-size"]
        );
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
