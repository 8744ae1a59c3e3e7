//! The table: the counts of all tokens and sums in memory that processes share. One process writes, others read.
//!
//! A table is a region of words of 64 bits, see `layout`. A slot is 0, or has the number of a row plus one in its lower
//! half and the lower half of the hash of the row's name in its upper half. Names are compared byte by byte: a hash
//! decides nothing. The row of a forgotten name stays, with counts of zero; a table in which too many rows are used up
//! is copied into a larger one.
//!
//! A change sets any number of rows and the state (totals, position), and is visible as a whole or not at all.
//! `committed` is the epoch of the last change, `writing` is one more while a change is made. A row has the epoch of
//! its last change, its counts, and its counts before that change; the state is there twice, for even and odd epochs.
//! A reader notes `committed` first. A row with a later epoch is read as it was before. The reader begins again where
//! `writing` shows in the end that what was before may have been overwritten. So nobody waits for a writer, and a
//! writer may be killed at any instruction: its successor takes back what was not committed (`roll_back`).
//!
//! Each load is an acquire, each store a release: whoever sees a store sees all stores before it.

pub mod layout;
pub mod names;
pub mod siphash;
#[cfg(test)]
mod tests;
mod write;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use layout::{state_at, Layout, CLASSES};
use names::NameKind;

const MAX_RETRIES: usize = 1000; // a look-up takes far less time than two changes

/// The counts of a name, one for each class.
pub type Counts = [i64; CLASSES];

/// Why a table could not be read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableError {
    /// The arguments do not fit together.
    Arguments,
    /// All rows, or all words of long names, that are reserved are in use.
    Full,
    /// The memory holds what no table writes.
    Damaged,
    /// Changes came faster than they could be read.
    Busy,
    /// A change was begun and not committed.
    Unfinished,
    /// No change was begun.
    NotBegun,
}

/// What belongs to the table as a whole, after one change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct State {
    /// The epoch of the change.
    pub epoch: u64,
    /// Learned messages of ham and spam, tokens of ham and spam, and the size of the vocabulary.
    pub totals: [i64; layout::TOTALS_WORDS],
    /// The last change that was applied, and one that was known to be stored then: both numbers of the stream id, and
    /// the sequence number, of each.
    pub position: [u64; layout::POSITION_WORDS],
    /// How many names have a count other than zero, the sums included.
    pub names: u64,
    /// How many sums have a count other than zero.
    pub sums: u64,
}

/// How much of the memory of a table is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub slots: usize,
    pub rows: usize,
    pub rows_used: usize,
    pub rows_reserved: usize,
    pub long_name_words: usize,
    pub long_names_used: usize,
    pub long_names_reserved: usize,
}

/// A table in memory that somebody else owns.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a> {
    words: &'a [AtomicU64],
    layout: Layout,
    key: [u64; 2],
}

/// A name that is looked up: its hash, the words of a name that is not long, where the search in the slots stands, and
/// what is there.
struct Sought {
    hash: u64,
    words: [u64; 3],
    slot: usize,
    content: u64,
}

/// What was found in the slots for a name.
enum Found {
    Row(usize),
    /// There is none; this slot is free.
    Nothing(usize),
}

impl<'a> Table<'a> {
    /// Writes an empty table into memory that is all zeros, and opens it.
    ///
    /// `key` is that of the hash. `identity` says what the table holds, in the words of its owner. Nothing is reserved.
    pub fn create(
        words: &'a [AtomicU64],
        rows: u64,
        long_name_words: u64,
        key: [u64; 2],
        identity: [u64; 2],
    ) -> Result<Table<'a>, TableError> {
        let layout = Layout::new(rows, long_name_words)?;
        if words.len() < layout.words() {
            return Err(TableError::Arguments);
        }
        let table = Table { words, layout, key };
        table.store(layout::AT_WORDS, words.len() as u64);
        table.store(layout::AT_ROWS, rows);
        table.store(layout::AT_LONG_NAME_WORDS, long_name_words);
        for i in 0..2 {
            table.store(layout::AT_KEY + i, key[i]);
            table.store(layout::AT_IDENTITY + i, identity[i]);
        }
        table.store(layout::AT_MAGIC, layout::MAGIC);
        Ok(table)
    }

    /// Opens a table that is in memory already.
    pub fn open(words: &'a [AtomicU64]) -> Result<Table<'a>, TableError> {
        if words.len() < layout::HEADER_WORDS {
            return Err(TableError::Damaged);
        }
        let at = |word: usize| words[word].load(Ordering::Acquire);
        let layout = Layout::new(at(layout::AT_ROWS), at(layout::AT_LONG_NAME_WORDS))
            .map_err(|_| TableError::Damaged)?;
        let fits = at(layout::AT_MAGIC) == layout::MAGIC
            && at(layout::AT_WORDS) == words.len() as u64
            && layout.words() <= words.len();
        let key = [at(layout::AT_KEY), at(layout::AT_KEY + 1)];
        if fits {
            Ok(Table { words, layout, key })
        } else {
            Err(TableError::Damaged)
        }
    }

    /// Returns the counts of `names` after the last change, and the state after the same change.
    ///
    /// A name without counts has zeros. `rows` has as many elements as `names`.
    pub fn look_up(&self, names: &[&[u8]], rows: &mut [Counts]) -> Result<State, TableError> {
        if names.len() != rows.len() {
            return Err(TableError::Arguments);
        }
        // One loop after the other: the processor fetches the lines of many slots at once, and then those of many rows,
        // which are likely to be wanted, before any name is compared.
        let mut sought = Vec::with_capacity(names.len());
        for name in names {
            let (hash, words) = names::hash_and_words(self.key, name);
            let slot = self.first_slot(hash);
            self.prefetch(slot);
            sought.push(Sought {
                hash,
                words,
                slot,
                content: 0,
            });
        }
        self.read_consistently(|epoch| {
            for name in &mut sought {
                name.slot = self.first_slot(name.hash);
                self.seek(name)?;
                if let Some(row) = self.row_in(name.content) {
                    self.prefetch(self.layout.row(row));
                }
            }
            for ((counts, sought), name) in rows.iter_mut().zip(&mut sought).zip(names) {
                *counts = match self.find_sought(name, sought)? {
                    Found::Row(row) => self.counts_at(row, epoch),
                    Found::Nothing(_) => [0; CLASSES],
                };
            }
            Ok(())
        })
    }

    /// Returns the row that is in a slot with this content.
    fn row_in(&self, content: u64) -> Option<usize> {
        let row = (content & 0xffff_ffff) as usize;
        (1..=self.layout.rows).contains(&row).then(|| row - 1)
    }

    /// Goes on, from the slot where the search stands, to one that may have the name, or to a free one.
    #[inline]
    fn seek(&self, sought: &mut Sought) -> Result<(), TableError> {
        sought.content = self.load(sought.slot);
        while sought.content != 0 && sought.content >> 32 != sought.hash & 0xffff_ffff {
            self.step(sought)?;
        }
        Ok(())
    }

    /// Goes on to the next slot.
    fn step(&self, sought: &mut Sought) -> Result<(), TableError> {
        sought.slot += 1;
        if sought.slot == layout::HEADER_WORDS + self.layout.slots {
            sought.slot = layout::HEADER_WORDS;
        }
        if sought.slot == self.first_slot(sought.hash) {
            return Err(TableError::Damaged); // a table always has free slots
        }
        sought.content = self.load(sought.slot);
        Ok(())
    }

    /// Returns what the slots have for a name, from where the search stands: nearly always the row of that slot.
    #[inline]
    fn find_sought(&self, name: &[u8], sought: &mut Sought) -> Result<Found, TableError> {
        while sought.content != 0 {
            let row = self.row_in(sought.content).ok_or(TableError::Damaged)?;
            if self.has_name(row, name, sought.words)? {
                return Ok(Found::Row(row));
            }
            self.step(sought)?;
            self.seek(sought)?;
        }
        Ok(Found::Nothing(sought.slot))
    }

    /// Returns the state after the last change.
    pub fn state(&self) -> Result<State, TableError> {
        self.read_consistently(|_| Ok(()))
    }

    /// Returns what the owner said the table holds.
    pub fn identity(&self) -> [u64; 2] {
        [
            self.load(layout::AT_IDENTITY),
            self.load(layout::AT_IDENTITY + 1),
        ]
    }

    /// Returns how much of the memory is in use.
    pub fn usage(&self) -> Usage {
        Usage {
            slots: self.layout.slots,
            rows: self.layout.rows,
            rows_used: self.rows_used(),
            rows_reserved: self.load(layout::AT_ROWS_RESERVED) as usize,
            long_name_words: self.layout.long_name_words,
            long_names_used: self.load(layout::AT_LONG_NAMES_USED) as usize,
            long_names_reserved: self.load(layout::AT_LONG_NAMES_RESERVED) as usize,
        }
    }

    /// Returns the state after the last change, and how much of the memory is in use.
    ///
    /// Whoever has them may make room for so many names: numbers that no writer leaves are an error.
    pub fn description(&self) -> Result<(State, Usage), TableError> {
        let (state, usage) = (self.state()?, self.usage());
        let fits = state.sums <= state.names
            && state.names <= usage.rows_used as u64
            && usage.rows_used <= usage.rows_reserved
            && usage.rows_reserved <= usage.rows
            && usage.long_names_used <= usage.long_names_reserved
            && usage.long_names_reserved <= usage.long_name_words;
        if fits {
            Ok((state, usage))
        } else {
            Err(TableError::Damaged)
        }
    }

    /// Calls `report` with the name and the counts of each name in these rows that has a count other than zero.
    ///
    /// The counts of a name are as they were after some change during the call. A writer sees all as it left it.
    pub fn for_each(
        &self,
        rows: Range<usize>,
        mut report: impl FnMut(&[u8], Counts),
    ) -> Result<(), TableError> {
        let mut name = Vec::new();
        for row in rows.start..rows.end.min(self.rows_used()) {
            let mut counts = [0; CLASSES];
            self.read_consistently(|epoch| {
                counts = self.counts_at(row, epoch);
                Ok(())
            })?;
            if counts != [0; CLASSES] {
                self.read_name(row, &mut name)?;
                report(&name, counts);
            }
        }
        Ok(())
    }

    /// Reads what `read` reads as it was after one change, and returns the state after that change.
    fn read_consistently(
        &self,
        mut read: impl FnMut(u64) -> Result<(), TableError>,
    ) -> Result<State, TableError> {
        for _ in 0..MAX_RETRIES {
            let epoch = self.load(layout::AT_COMMITTED);
            read(epoch)?;
            let state = self.state_of(epoch);
            let writing = self.load(layout::AT_WRITING);
            if writing < epoch {
                return Err(TableError::Damaged); // a change is begun before it is committed
            }
            if writing <= epoch.saturating_add(1) {
                return Ok(state);
            }
        }
        Err(TableError::Busy)
    }

    fn state_of(&self, epoch: u64) -> State {
        let at = state_at(epoch);
        let mut state = State {
            epoch,
            names: self.load(at + layout::NAMES),
            sums: self.load(at + layout::SUMS),
            ..State::default()
        };
        for (i, total) in state.totals.iter_mut().enumerate() {
            *total = self.load(at + layout::TOTALS + i) as i64;
        }
        for (i, number) in state.position.iter_mut().enumerate() {
            *number = self.load(at + layout::POSITION + i);
        }
        state
    }

    /// Returns the counts of a row after the change of this epoch, which is the last one or will be checked to be.
    fn counts_at(&self, row: usize, epoch: u64) -> Counts {
        let at = self.layout.row(row);
        if self.load(at + layout::EPOCH) <= epoch {
            let counts = self.counts_from(at + layout::COUNTS);
            if self.load(at + layout::EPOCH) <= epoch {
                return counts;
            }
        }
        self.counts_from(at + layout::BEFORE)
    }

    /// Begins to fetch the line of the cache in which this word is. That is without effect on what is read.
    #[allow(unsafe_code)] // Rust has no other way to say it.
    fn prefetch(&self, word: usize) {
        #[cfg(target_arch = "x86_64")]
        if let Some(word) = self.words.get(word) {
            use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
            // SAFETY: every processor of this architecture has the instruction, and the address is one of the table.
            unsafe { _mm_prefetch::<_MM_HINT_T0>((word as *const AtomicU64).cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        self.load(word);
    }

    fn counts_from(&self, word: usize) -> Counts {
        [self.load(word) as i64, self.load(word + 1) as i64]
    }

    fn hash(&self, name: &[u8]) -> u64 {
        siphash::siphash13(self.key, name)
    }

    /// The word of the slot at which the search for a hash begins.
    fn first_slot(&self, hash: u64) -> usize {
        let slot = (u128::from(hash) * self.layout.slots as u128) >> 64;
        layout::HEADER_WORDS + slot as usize
    }

    fn find(&self, name: &[u8], hash: u64) -> Result<Found, TableError> {
        let mut sought = Sought {
            hash,
            words: names::short_name(name),
            slot: self.first_slot(hash),
            content: 0,
        };
        self.seek(&mut sought)?;
        self.find_sought(name, &mut sought)
    }

    fn name_words(&self, row: usize) -> [u64; 3] {
        let at = self.layout.row(row) + layout::NAME;
        [self.load(at), self.load(at + 1), self.load(at + 2)]
    }

    /// Returns whether the row has this name; `short` are the words of a name that is not long.
    #[inline]
    fn has_name(&self, row: usize, name: &[u8], short: [u64; 3]) -> Result<bool, TableError> {
        let words = self.name_words(row);
        if name.len() <= names::MAX_SHORT {
            return Ok(words == short);
        }
        let at = match names::name_kind(words) {
            NameKind::Long { at, length } if length == name.len() => self.long_name(at, length)?,
            NameKind::Damaged => return Err(TableError::Damaged),
            _ => return Ok(false),
        };
        let mut words = 0..names::long_name_words(name.len());
        Ok(words.all(|word| self.load(at + word) == siphash::eight_bytes(name, 8 * word)))
    }

    /// Returns the number of the first word of a long name, once it is sure that the name lies in the table.
    fn long_name(&self, at: usize, length: usize) -> Result<usize, TableError> {
        match at.checked_add(names::long_name_words(length)) {
            Some(end) if end <= self.layout.long_name_words => Ok(self.layout.long_names() + at),
            _ => Err(TableError::Damaged),
        }
    }

    /// Replaces what is in `name` by the name of the row; it is empty for a row without a name.
    fn read_name(&self, row: usize, name: &mut Vec<u8>) -> Result<(), TableError> {
        name.clear();
        let words = self.name_words(row);
        let length = match names::name_kind(words) {
            NameKind::Missing => return Ok(()),
            NameKind::Damaged => return Err(TableError::Damaged),
            NameKind::Short(length) => {
                words
                    .iter()
                    .for_each(|word| name.extend(word.to_le_bytes()));
                length
            }
            NameKind::Long { at, length } => {
                let first = self.long_name(at, length)?;
                for word in first..first + names::long_name_words(length) {
                    name.extend(self.load(word).to_le_bytes());
                }
                length
            }
        };
        name.truncate(length);
        Ok(())
    }

    fn rows_used(&self) -> usize {
        (self.load(layout::AT_ROWS_USED) as usize).min(self.layout.rows)
    }

    #[inline]
    fn load(&self, word: usize) -> u64 {
        self.words[word].load(Ordering::Acquire)
    }

    #[inline]
    fn store(&self, word: usize, value: u64) {
        self.words[word].store(value, Ordering::Release);
        #[cfg(test)]
        tests::after_store(self.words);
    }
}
