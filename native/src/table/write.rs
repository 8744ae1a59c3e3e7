//! What only the writer of a table does. The order of the stores is what makes each of them safe to be the last one.

use super::layout::{self, state_at, CLASSES, STATE_WORDS};
use super::{names, Counts, Found, Table, TableError};

const PREFETCHED_NAMES: usize = 16;

impl Table<'_> {
    /// Lets the table use this many rows and words of long names; their memory must be there.
    pub fn reserve(&self, rows: u64, long_name_words: u64) -> Result<(), TableError> {
        if rows > self.layout.rows as u64 || long_name_words > self.layout.long_name_words as u64 {
            return Err(TableError::Arguments);
        }
        self.store(layout::AT_ROWS_RESERVED, rows);
        self.store(layout::AT_LONG_NAMES_RESERVED, long_name_words);
        Ok(())
    }

    /// Begins a change. Fails where one was begun and not committed.
    pub fn begin(&self) -> Result<(), TableError> {
        let committed = self.load(layout::AT_COMMITTED);
        if self.load(layout::AT_WRITING) != committed {
            return Err(TableError::Unfinished);
        }
        let epoch = committed.checked_add(1).ok_or(TableError::Damaged)?;
        self.store(layout::AT_WRITING, epoch);
        self.copy_state(committed, epoch);
        Ok(())
    }

    /// Sets the counts of a name to what `change` makes of them. A name whose counts are all zero is forgotten.
    ///
    /// After `Full` the change goes on, and the same name may be set again once more is reserved.
    pub fn set(&self, name: &[u8], change: impl Fn(Counts) -> Counts) -> Result<(), TableError> {
        self.set_hashed(name, self.hash(name), change)
    }

    /// Sets the counts of many names to what `change` makes of them and of the index of the name, as `set` does.
    pub fn set_all(
        &self,
        names: &[&[u8]],
        change: impl Fn(usize, Counts) -> Counts,
    ) -> Result<(), TableError> {
        let hashes: Vec<u64> = names.iter().map(|name| self.hash(name)).collect();
        for (i, name) in names.iter().enumerate() {
            // The processor fetches the line of a slot while the names before it are set.
            if let Some(&ahead) = hashes.get(i + PREFETCHED_NAMES) {
                self.prefetch(self.first_slot(ahead));
            }
            self.set_hashed(name, hashes[i], |counts| change(i, counts))?;
        }
        Ok(())
    }

    fn set_hashed(
        &self,
        name: &[u8],
        hash: u64,
        change: impl Fn(Counts) -> Counts,
    ) -> Result<(), TableError> {
        let epoch = self.begun_epoch()?;
        let (before, after);
        match self.find(name, hash)? {
            Found::Row(row) => {
                let at = self.layout.row(row);
                before = self.counts_from(at + layout::COUNTS);
                after = change(before);
                if after == before {
                    return Ok(());
                }
                if self.load(at + layout::EPOCH) != epoch {
                    self.store_counts(at + layout::BEFORE, before);
                    self.store(at + layout::EPOCH, epoch);
                }
                self.store_counts(at + layout::COUNTS, after);
            }
            Found::Nothing(slot) => {
                before = [0; CLASSES];
                after = change(before);
                if after == before {
                    return Ok(());
                }
                let row = self.add_row(name, epoch, after)?;
                self.store(slot, hash << 32 | (row as u64 + 1));
            }
        }
        self.note_presence(name, epoch, before, after);
        Ok(())
    }

    /// Makes the change visible, and with it these totals and this position.
    pub fn commit(
        &self,
        totals: [i64; layout::TOTALS_WORDS],
        position: [u64; layout::POSITION_WORDS],
    ) -> Result<(), TableError> {
        let epoch = self.begun_epoch()?;
        let at = state_at(epoch);
        for (i, total) in totals.iter().enumerate() {
            self.store(at + layout::TOTALS + i, *total as u64);
        }
        for (i, number) in position.iter().enumerate() {
            self.store(at + layout::POSITION + i, *number);
        }
        self.store(layout::AT_COMMITTED, epoch);
        Ok(())
    }

    /// Takes back, in at most `rows` rows from `first` on, what a change did that was begun and not committed.
    ///
    /// Returns the row to go on with, or None when all is done.
    pub fn roll_back(&self, first: usize, rows: usize) -> Result<Option<usize>, TableError> {
        let committed = self.load(layout::AT_COMMITTED);
        if self.load(layout::AT_WRITING) == committed {
            return Ok(None);
        }
        let epoch = self.begun_epoch()?;
        let end = self.rows_used().min(first.saturating_add(rows));
        for row in first..end {
            let at = self.layout.row(row);
            if self.load(at + layout::EPOCH) == epoch {
                // Readers take what was before as long as the epoch is not committed, and afterwards the same.
                self.store_counts(at + layout::COUNTS, self.counts_from(at + layout::BEFORE));
            }
        }
        if end < self.rows_used() {
            return Ok(Some(end));
        }
        // Epochs never go back, or a slow reader would not see that it is late: the change ends as one of nothing.
        self.copy_state(committed, epoch);
        self.store(layout::AT_COMMITTED, epoch);
        Ok(None)
    }

    /// Copies the counts of at most `rows` rows from `first` on to `target`, in which a change was begun.
    ///
    /// Returns the row to go on with, or None when all is done. After `Full` the same rows may be copied again.
    pub fn copy_rows(
        &self,
        target: &Table,
        first: usize,
        rows: usize,
    ) -> Result<Option<usize>, TableError> {
        let end = self.rows_used().min(first.saturating_add(rows));
        let mut name = Vec::new();
        for row in first..end {
            let counts = self.counts_from(self.layout.row(row) + layout::COUNTS);
            if counts != [0; CLASSES] {
                self.read_name(row, &mut name)?;
                target.set(&name, |_| counts)?;
            }
        }
        Ok(if end < self.rows_used() {
            Some(end)
        } else {
            None
        })
    }

    fn begun_epoch(&self) -> Result<u64, TableError> {
        let (committed, writing) = (
            self.load(layout::AT_COMMITTED),
            self.load(layout::AT_WRITING),
        );
        match writing.checked_sub(committed) {
            Some(0) => Err(TableError::NotBegun),
            Some(1) => Ok(writing),
            _ => Err(TableError::Damaged),
        }
    }

    fn copy_state(&self, from: u64, to: u64) {
        for i in 0..STATE_WORDS {
            self.store(state_at(to) + i, self.load(state_at(from) + i));
        }
    }

    /// Fills the next row, whose memory is all zeros, and returns its number. Nobody finds it yet.
    fn add_row(&self, name: &[u8], epoch: u64, counts: Counts) -> Result<usize, TableError> {
        let usage = self.usage();
        if usage.rows_used >= usage.rows_reserved.min(self.layout.rows) {
            return Err(TableError::Full);
        }
        let at = self.layout.row(usage.rows_used);
        let words = if name.len() <= names::MAX_SHORT {
            names::short_name(name)
        } else {
            names::long_name(self.add_long_name(name)?, name.len())
        };
        // First of all, the row is taken: what is left of it after a kill is never given to another name.
        self.store(layout::AT_ROWS_USED, usage.rows_used as u64 + 1);
        self.store(at + layout::EPOCH, epoch);
        for (i, word) in words.iter().enumerate() {
            self.store(at + layout::NAME + i, *word);
        }
        self.store_counts(at + layout::COUNTS, counts);
        Ok(usage.rows_used)
    }

    fn add_long_name(&self, name: &[u8]) -> Result<usize, TableError> {
        let usage = self.usage();
        let at = usage.long_names_used;
        let end = at
            .checked_add(names::long_name_words(name.len()))
            .ok_or(TableError::Damaged)?;
        if end > usage.long_names_reserved.min(self.layout.long_name_words) {
            return Err(TableError::Full);
        }
        self.store(layout::AT_LONG_NAMES_USED, end as u64);
        for word in 0..end - at {
            self.store(
                self.layout.long_names() + at + word,
                super::siphash::eight_bytes(name, 8 * word),
            );
        }
        Ok(at)
    }

    fn store_counts(&self, word: usize, counts: Counts) {
        for (i, count) in counts.iter().enumerate() {
            self.store(word + i, *count as u64);
        }
    }

    fn note_presence(&self, name: &[u8], epoch: u64, before: Counts, after: Counts) {
        let (was, is) = (before != [0; CLASSES], after != [0; CLASSES]);
        if was == is {
            return;
        }
        let change = if is { 1_u64 } else { u64::MAX }; // one more, or one fewer
        let add = |field| self.store(field, self.load(field).wrapping_add(change));
        add(state_at(epoch) + layout::NAMES);
        if names::is_sum(name) {
            add(state_at(epoch) + layout::SUMS);
        }
    }
}
