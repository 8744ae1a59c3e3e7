//! Rows of a table: a fixed number of places for names and their counts, and slots by which a name is found.
//!
//! A slot is 0, or has the number of a row plus one in its lower half and the lower half of the hash of the row's name
//! in its upper half. Names are compared byte by byte: a hash decides nothing. The row of a forgotten name stays, with
//! counts of zero.

use super::names::{self, hash_and_words, HashedName};
use super::{Counts, TableError, CLASSES};

const MAX_ROWS: usize = 1 << 31;

/// A name in three words, see `names`, and its counts.
#[derive(Debug, Clone, Copy)]
struct Row {
    name: [u64; 3],
    counts: Counts,
}

/// Rows, their slots and their long names. `names` and `sums` count those with a count other than zero.
#[derive(Debug)]
pub struct Rows {
    key: [u64; 2],
    slots: Vec<u64>,
    rows: Vec<Row>,
    capacity: usize,
    long_names: Vec<u8>,
    pub names: usize,
    pub sums: usize,
    /// The bytes of the names that are counted in `names`.
    pub name_bytes: usize,
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

impl Rows {
    /// Returns room for so many names. The memory is taken when it is written to.
    pub fn new(key: [u64; 2], capacity: usize) -> Result<Rows, TableError> {
        if capacity > MAX_ROWS {
            return Err(TableError::Full);
        }
        // Four of five slots at most are in use, in whole lines of the processor's cache.
        let slots = vec![0; (capacity + capacity / 4) / 8 * 8 + 8];
        let rows = Vec::with_capacity(capacity);
        huge_pages::ask_for(slots.as_ptr(), slots.capacity());
        huge_pages::ask_for(rows.as_ptr(), rows.capacity());
        Ok(Rows {
            key,
            slots,
            rows,
            capacity,
            long_names: Vec::new(),
            names: 0,
            sums: 0,
            name_bytes: 0,
        })
    }

    /// Returns how many rows are in use.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns how many rows are free.
    pub fn room(&self) -> usize {
        self.capacity - self.rows.len()
    }

    /// Returns whether so many rows are in use that it is time to copy them into more.
    pub fn are_nearly_full(&self) -> bool {
        5 * self.rows.len() >= 4 * self.capacity
    }

    /// Returns the bytes of memory that are in use.
    pub fn bytes_used(&self) -> usize {
        8 * self.slots.len() + std::mem::size_of::<Row>() * self.rows.len() + self.long_names.len()
    }

    /// Returns the hash of a name, and its words: see `names`.
    pub fn hash_and_words(&self, name: &[u8]) -> HashedName {
        hash_and_words(self.key, name)
    }

    /// Writes the counts of each name; zeros for a name without counts.
    ///
    /// One loop after the other: the processor fetches the lines of many slots at once, and then those of many rows,
    /// which are likely to be wanted, before any name is compared.
    pub fn look_up(&self, names: &[&[u8]], out: &mut [Counts]) {
        let mut sought = Vec::with_capacity(names.len());
        for name in names {
            let (hash, words) = hash_and_words(self.key, name);
            let slot = self.first_slot(hash);
            prefetch(&self.slots[slot]);
            sought.push(Sought {
                hash,
                words,
                slot,
                content: 0,
            });
        }
        for name in &mut sought {
            self.seek(name);
            if let Some(row) = row_in(name.content) {
                prefetch(&self.rows[row].name);
                prefetch(&self.rows[row].counts[CLASSES - 1]); // a row may lie in two lines
            }
        }
        for ((counts, sought), name) in out.iter_mut().zip(&mut sought).zip(names) {
            *counts = match self.find_sought(name, sought) {
                Found::Row(row) => self.rows[row].counts,
                Found::Nothing(_) => [0; CLASSES],
            };
        }
    }

    /// Begins to fetch the slot where the search for a hash begins.
    pub fn prefetch_slot(&self, hash: u64) {
        prefetch(&self.slots[self.first_slot(hash)]);
    }

    /// Sets the counts of a name to what `change` makes of them, and returns them. There is room for it.
    pub fn set(
        &mut self,
        name: &[u8],
        (hash, words): HashedName,
        change: impl FnOnce(Counts) -> Counts,
    ) -> Counts {
        let mut sought = Sought {
            hash,
            words,
            slot: self.first_slot(hash),
            content: 0,
        };
        self.seek(&mut sought);
        let found = self.find_sought(name, &mut sought);
        let before = match found {
            Found::Row(row) => self.rows[row].counts,
            Found::Nothing(_) => [0; CLASSES],
        };
        let after = change(before);
        if after == before {
            return after;
        }
        match found {
            Found::Row(row) => self.rows[row].counts = after,
            Found::Nothing(slot) => {
                self.add_row(name, words, after);
                self.slots[slot] = hash << 32 | self.rows.len() as u64;
            }
        }
        let (was, is) = (before != [0; CLASSES], after != [0; CLASSES]);
        if was != is {
            self.note_presence(name, is);
        }
        after
    }

    /// Calls `report` with the name and the counts of each name that has a count other than zero, of `count` rows from
    /// `first` on.
    pub fn for_each(&self, first: usize, count: usize, mut report: impl FnMut(&[u8], Counts)) {
        for row in self.rows.iter().skip(first).take(count) {
            if row.counts != [0; CLASSES] {
                match names::place_of_long_name(row.name) {
                    Some(place) => report(&self.long_names[place], row.counts),
                    None => {
                        let (bytes, length) = names::held_name(row.name);
                        report(&bytes[..length], row.counts);
                    }
                }
            }
        }
    }

    /// The slot at which the search for a hash begins.
    fn first_slot(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.slots.len() as u128) >> 64) as usize
    }

    /// Goes on, from the slot where the search stands, to one that may have the name, or to a free one.
    #[inline]
    fn seek(&self, sought: &mut Sought) {
        sought.content = self.slots[sought.slot];
        while sought.content != 0 && sought.content >> 32 != sought.hash & 0xffff_ffff {
            self.step(sought);
        }
    }

    /// Goes on to the next slot: some are always free.
    fn step(&self, sought: &mut Sought) {
        sought.slot += 1;
        if sought.slot == self.slots.len() {
            sought.slot = 0;
        }
        sought.content = self.slots[sought.slot];
    }

    /// Returns what the slots have for a name, from where the search stands: nearly always the row of that slot.
    #[inline]
    fn find_sought(&self, name: &[u8], sought: &mut Sought) -> Found {
        while let Some(row) = row_in(sought.content) {
            if self.has_name(row, name, sought.words) {
                return Found::Row(row);
            }
            self.step(sought);
            self.seek(sought);
        }
        Found::Nothing(sought.slot)
    }

    /// Returns whether the row has this name; `short` are the words of a name that is not long.
    #[inline]
    fn has_name(&self, row: usize, name: &[u8], short: [u64; 3]) -> bool {
        let words = self.rows[row].name;
        if name.len() <= names::MAX_SHORT {
            return words == short;
        }
        names::place_of_long_name(words).map_or(false, |place| self.long_names[place] == *name)
    }

    fn add_row(&mut self, name: &[u8], short: [u64; 3], counts: Counts) {
        let words = if name.len() <= names::MAX_SHORT {
            short
        } else {
            let at = self.long_names.len();
            self.long_names.extend_from_slice(name);
            names::long_name(at, name.len())
        };
        self.rows.push(Row {
            name: words,
            counts,
        });
    }

    fn note_presence(&mut self, name: &[u8], is_there: bool) {
        let is_sum = usize::from(names::is_sum(name));
        if is_there {
            self.names += 1;
            self.sums += is_sum;
            self.name_bytes += name.len();
        } else {
            self.names -= 1;
            self.sums -= is_sum;
            self.name_bytes -= name.len();
        }
    }
}

/// Returns the row that is in a slot with this content.
fn row_in(content: u64) -> Option<usize> {
    ((content & 0xffff_ffff) as usize).checked_sub(1)
}

/// Begins to fetch the line of the cache in which this value is. That is without effect on what is read.
#[allow(unsafe_code)] // Rust has no other way to say it.
fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        // SAFETY: every processor of this architecture has the instruction, and the address is one of a value.
        unsafe { _mm_prefetch::<_MM_HINT_T0>((value as *const T).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// A message looks at places all over the table: with small pages the processor has to ask where they are.
mod huge_pages {
    const PAGE: usize = 1 << 21;

    /// Asks the kernel for huge pages where whole ones lie in the memory of so many values.
    #[cfg(target_os = "linux")]
    #[allow(unsafe_code)] // the standard library has no such call
    pub fn ask_for<T>(first: *const T, values: usize) {
        extern "C" {
            fn madvise(start: *mut u8, length: usize, advice: i32) -> i32;
        }
        const MADV_HUGEPAGE: i32 = 14;
        let (start, length) = (first as usize, values * std::mem::size_of::<T>());
        let first_page = (start + PAGE - 1) / PAGE * PAGE;
        let whole = (start + length).saturating_sub(first_page) / PAGE * PAGE;
        if whole > 0 {
            // SAFETY: these pages lie in memory of this process, and the call does not change what is in them.
            // Where it fails, the kernel has no huge pages.
            let _ = unsafe { madvise(first_page as *mut u8, whole, MADV_HUGEPAGE) };
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub fn ask_for<T>(_: *const T, _: usize) {}
}
