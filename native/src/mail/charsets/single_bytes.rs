//! Text in charsets of single bytes: see `_single_byte_table` in Python.

use super::single_byte_tables::{NAMES, TABLES};

/// The characters of the bytes from 0x80 on; those below are ASCII.
pub type Table = [char; 128];

/// Returns the table of a charset by its name in lower case; None where there is none here.
pub fn table(name: &[u8]) -> Option<&'static Table> {
    let place = NAMES.binary_search_by(|(known, _)| known.as_bytes().cmp(name));
    TABLES.get(NAMES[place.ok()?].1)
}

/// Returns `content` as text; U+FFFD stands for bytes that are no characters.
pub fn decode(content: &[u8], table: &Table) -> String {
    let mut text = String::with_capacity(content.len() + content.len() / 8);
    let mut rest = content;
    loop {
        let run = rest.iter().take_while(|byte| byte.is_ascii()).count();
        // A run of ASCII is UTF-8.
        text.push_str(std::str::from_utf8(&rest[..run]).unwrap_or_default());
        match rest[run..].split_first() {
            Some((byte, behind)) => {
                text.push(table[usize::from(byte & 0x7f)]);
                rest = behind;
            }
            None => return text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_have_tables() {
        assert!(NAMES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(NAMES
            .iter()
            .all(|(name, _)| table(name.as_bytes()).is_some()));
        assert!(table(b"gb2312").is_none());
    }

    #[test]
    fn bytes_without_a_character_are_replaced() {
        assert_eq!(
            decode(b"a\x80\x81", table(b"latin1").unwrap()),
            "a\u{20ac}\u{fffd}"
        );
    }
}
