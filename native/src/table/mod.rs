//! The table: the counts of all tokens and sums in the memory of this process.
//!
//! Its rows have a fixed size. Before they are full, larger ones are made, and the counts are copied into those, some at
//! each change, so that no change takes long; until all are copied, changes go to both. The rows of forgotten names are
//! not copied.

pub mod names;
mod rows;
pub mod siphash;
#[cfg(test)]
mod tests;

use names::HashedName;
use rows::Rows;

/// The classes of a score: ham and spam.
pub const CLASSES: usize = 2;

/// The columns of a table: ham and spam, then the kinds of ham.
const SPAM: usize = 1;

const LEAST_ROWS: usize = 1024;
const PREFETCHED_NAMES: usize = 16;
const COPIED_PER_NAME: usize = 8; // rows: enough that a copy ends before the table is full
const LEAST_COPIED: usize = 512;
const MOST_COPIED: usize = 16_384; // 3 ms

/// The counts of a name by label: of ham, which is all columns but that of spam, and of spam.
pub type Counts = [i64; CLASSES];

/// Why a table could not be read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableError {
    /// The arguments do not fit together.
    Arguments,
    /// There can be no more names.
    Full,
}

/// The counts of names, one in each column.
#[derive(Debug)]
pub struct Table {
    key: [u64; 2],
    rows: Rows,
    /// Larger rows, and how many rows have been copied into them.
    larger: Option<(Rows, usize)>,
}

/// How many names have a count other than zero, the sums included, how many of them are sums, how many bytes all these
/// names have, and how many bytes of memory are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub names: usize,
    pub sums: usize,
    pub name_bytes: usize,
    pub bytes_used: usize,
}

impl Table {
    /// Returns a table that has room for so many names, and some more. `key` is that of the hash.
    pub fn new(key: [u64; 2], names: usize, columns: usize) -> Result<Table, TableError> {
        Ok(Table {
            key,
            rows: Rows::new(key, rows_for(names), columns)?,
            larger: None,
        })
    }

    /// Writes the counts of each name by label; zeros for a name without counts. `out` has as many elements as `names`.
    pub fn look_up(&self, names: &[&[u8]], out: &mut [Counts]) {
        self.rows.look_up(names, out);
    }

    /// Writes the counts of each name in each column; `out` has an element for each of them.
    pub fn look_up_columns(&self, names: &[&[u8]], out: &mut [i64]) {
        self.rows.look_up_columns(names, out);
    }

    /// Returns how many columns there are.
    pub fn columns(&self) -> usize {
        self.rows.columns()
    }

    /// Adds a column; its counts are zero.
    pub fn add_column(&mut self) {
        self.larger = None;
        self.rows.add_column();
    }

    pub fn usage(&self) -> Usage {
        Usage {
            names: self.rows.names,
            sums: self.rows.sums,
            name_bytes: self.rows.name_bytes,
            bytes_used: self.rows.bytes_used(),
        }
    }

    /// Calls `report` with the name and the counts of each name that has a count other than zero.
    pub fn for_each(&self, report: impl FnMut(&[u8], &[i64])) {
        self.rows.for_each(0, usize::MAX, report);
    }

    /// Has `change` change the counts of each name, by the index of the name.
    ///
    /// A name whose counts are all zero is forgotten. Changes nothing where there can be no more names.
    pub fn set_all(
        &mut self,
        names: &[&[u8]],
        change: impl Fn(usize, &mut [i64]),
    ) -> Result<(), TableError> {
        self.make_room(names.len())?;
        let hashed: Vec<HashedName> = names
            .iter()
            .map(|name| self.rows.hash_and_words(name))
            .collect();
        for (i, name) in names.iter().enumerate() {
            // The processor fetches the line of a slot while the names before it are set.
            if let Some(ahead) = hashed.get(i + PREFETCHED_NAMES) {
                self.rows.prefetch_slot(ahead.0);
            }
            let counts = self.rows.set(name, hashed[i], |counts| change(i, counts));
            if let Some((larger, _)) = &mut self.larger {
                larger.set(name, hashed[i], |copy| match counts {
                    Some(counts) => copy.copy_from_slice(counts),
                    None => copy.fill(0),
                });
            }
        }
        self.copy_some((COPIED_PER_NAME * names.len()).clamp(LEAST_COPIED, MOST_COPIED));
        Ok(())
    }

    /// Makes sure that so many new names have room, in the larger rows too where there are any.
    fn make_room(&mut self, names: usize) -> Result<(), TableError> {
        if let Some((larger, copied)) = &self.larger {
            if larger.room() < names + self.rows.len() - copied {
                self.larger = None;
            }
        }
        if self.rows.room() < names {
            if self.larger.is_none() {
                self.begin_copy(names)?;
            }
            self.copy_some(usize::MAX);
        }
        Ok(())
    }

    /// Makes larger rows, with room for so many more names.
    fn begin_copy(&mut self, names: usize) -> Result<(), TableError> {
        let larger = Rows::new(
            self.key,
            rows_for(self.rows.names + names),
            self.rows.columns(),
        )?;
        self.larger = Some((larger, 0));
        Ok(())
    }

    /// Makes larger rows where it is time, or copies so many rows into them: the next step of that.
    fn copy_some(&mut self, rows: usize) {
        if let Some((larger, copied)) = &mut self.larger {
            self.rows.for_each(*copied, rows, |name, counts| {
                let hashed = larger.hash_and_words(name);
                larger.set(name, hashed, |copy| copy.copy_from_slice(counts));
            });
            *copied = self.rows.len().min(copied.saturating_add(rows));
            if *copied < self.rows.len() {
                return;
            }
            if let Some((larger, _)) = self.larger.take() {
                self.rows = larger;
            }
        } else if self.rows.are_nearly_full() {
            let _ = self.begin_copy(0); // where there can be no larger ones, `make_room` says so in time
        }
    }
}

/// Returns these counts by label.
#[inline]
fn by_label(counts: &[i64]) -> Counts {
    let others = counts[CLASSES..]
        .iter()
        .fold(0, |sum: i64, &count| sum.wrapping_add(count));
    [counts[0].wrapping_add(others), counts[SPAM]]
}

/// Returns how many rows a table for so many names has.
fn rows_for(names: usize) -> usize {
    LEAST_ROWS.max(names.saturating_add(names / 2))
}
