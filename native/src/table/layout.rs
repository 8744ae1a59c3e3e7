//! Where everything is in the memory of a table: words of 64 bits, one after the other.
//!
//! header | slots | rows of eight words | long names

use super::TableError;

pub const MAGIC: u64 = u64::from_le_bytes(*b"nbtable1");

// The words of the header.
pub const AT_MAGIC: usize = 0;
pub const AT_WORDS: usize = 1;
pub const AT_ROWS: usize = 2;
pub const AT_LONG_NAME_WORDS: usize = 3;
pub const AT_KEY: usize = 4; // two words
pub const AT_IDENTITY: usize = 6; // two words
pub const AT_COMMITTED: usize = 8; // in bytes: NBN_TABLE_COMMITTED_OFFSET of interface.h
pub const AT_WRITING: usize = 9;
pub const AT_ROWS_USED: usize = 10;
pub const AT_LONG_NAMES_USED: usize = 11;
pub const AT_ROWS_RESERVED: usize = 12;
pub const AT_LONG_NAMES_RESERVED: usize = 13;
const AT_STATES: usize = 16; // two, one for even and one for odd epochs
pub const STATE_WORDS: usize = 16;
pub const HEADER_WORDS: usize = AT_STATES + 2 * STATE_WORDS + 16;

// The words of a state.
pub const TOTALS: usize = 0; // messages of ham and spam, tokens of ham and spam, vocabulary
pub const TOTALS_WORDS: usize = 5;
pub const POSITION: usize = 5; // of the last change, and of one that was known to be stored
pub const POSITION_WORDS: usize = 6; // both numbers of the stream id, and the sequence number, of each
pub const NAMES: usize = 11; // names with a count other than zero, the sums included
pub const SUMS: usize = 12; // sums with a count other than zero

// The words of a row. A row is one line of the processor's cache.
pub const ROW_WORDS: usize = 8; // in bytes: NBN_TABLE_ROW_BYTES of interface.h
pub const NAME: usize = 0; // three words
pub const EPOCH: usize = 3;
pub const COUNTS: usize = 4; // one word for each class
pub const BEFORE: usize = 6; // the counts before the last change of the row

pub const CLASSES: usize = 2;

const MAX_ROWS: u64 = 1 << 31;
const MAX_LONG_NAME_WORDS: u64 = 1 << 36;

/// The sizes of a table, and what follows from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub rows: usize,
    pub slots: usize,
    pub long_name_words: usize,
}

impl Layout {
    /// Returns the layout of a table with this many rows and words of long names.
    pub fn new(rows: u64, long_name_words: u64) -> Result<Layout, TableError> {
        if rows == 0 || rows > MAX_ROWS || long_name_words > MAX_LONG_NAME_WORDS {
            return Err(TableError::Arguments);
        }
        // Four of five slots at most are in use, in whole lines of the processor's cache.
        let slots = (rows + rows / 4) / 8 * 8 + 8;
        Ok(Layout {
            rows: rows as usize,
            slots: slots as usize,
            long_name_words: long_name_words as usize,
        })
    }

    /// The number of the first word of a row.
    pub fn row(&self, row: usize) -> usize {
        HEADER_WORDS + self.slots + row * ROW_WORDS
    }

    /// The number of the first word of the long names.
    pub fn long_names(&self) -> usize {
        self.row(self.rows)
    }

    /// The number of words of the whole table.
    pub fn words(&self) -> usize {
        self.long_names() + self.long_name_words
    }
}

/// The number of the first word of the state of an epoch.
pub fn state_at(epoch: u64) -> usize {
    AT_STATES + (epoch & 1) as usize * STATE_WORDS
}
