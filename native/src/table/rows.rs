//! Rows of a table: a fixed number of places for names and their counts, and slots by which a name is found.
//!
//! A slot is 0, or has the number of a row plus one in its lower half and the lower half of the hash of the row's name
//! in its upper half. Names are compared byte by byte: a hash decides nothing. The row of a forgotten name stays, with
//! counts of zero.

use super::names::{self, hash_and_words, HashedName};
use super::{by_label, Counts, TableError, CLASSES};

const MAX_ROWS: usize = 1 << 31;
const NAME_WORDS: usize = 3;

/// Rows, their slots and their long names. `names` and `sums` count those with a count other than zero.
///
/// The words of a row are its name, see `names`, and its count in each column.
#[derive(Debug)]
pub struct Rows {
    key: [u64; 2],
    slots: Vec<u64>,
    words: Vec<i64>,
    /// How many words a row has.
    stride: usize,
    len: usize,
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
    pub fn new(key: [u64; 2], capacity: usize, columns: usize) -> Result<Rows, TableError> {
        if capacity > MAX_ROWS {
            return Err(TableError::Full);
        }
        if columns < CLASSES {
            return Err(TableError::Arguments);
        }
        // Four of five slots at most are in use, in whole lines of the processor's cache.
        let slots = vec![0; (capacity + capacity / 4) / 8 * 8 + 8];
        let stride = NAME_WORDS + columns;
        huge_pages::ask_for(slots.as_ptr(), slots.capacity());
        Ok(Rows {
            key,
            slots,
            words: words_for(capacity, stride),
            stride,
            len: 0,
            capacity,
            long_names: Vec::new(),
            names: 0,
            sums: 0,
            name_bytes: 0,
        })
    }

    /// Returns how many rows are in use.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns how many counts each name has.
    pub fn columns(&self) -> usize {
        self.stride - NAME_WORDS
    }

    /// Gives each row one more column, whose counts are zero. The rows keep their numbers.
    pub fn add_column(&mut self) {
        let mut words = words_for(self.capacity, self.stride + 1);
        for row in self.words.chunks_exact(self.stride) {
            words.extend_from_slice(row);
            words.push(0);
        }
        self.words = words;
        self.stride += 1;
    }

    /// Returns how many rows are free.
    pub fn room(&self) -> usize {
        self.capacity - self.len
    }

    /// Returns whether so many rows are in use that it is time to copy them into more.
    pub fn are_nearly_full(&self) -> bool {
        5 * self.len >= 4 * self.capacity
    }

    /// Returns the bytes of memory that are in use.
    pub fn bytes_used(&self) -> usize {
        8 * (self.slots.len() + self.words.len()) + self.long_names.len()
    }

    /// Returns the hash of a name, and its words: see `names`.
    pub fn hash_and_words(&self, name: &[u8]) -> HashedName {
        hash_and_words(self.key, name)
    }

    /// Writes the counts of each name by label; zeros for a name without counts.
    pub fn look_up(&self, names: &[&[u8]], out: &mut [Counts]) {
        let mut out = out.iter_mut();
        self.find_all(names, |counts| {
            if let Some(place) = out.next() {
                *place = counts.map_or([0; CLASSES], by_label);
            }
        });
    }

    /// Writes the counts of each name in each column; zeros for a name without counts.
    pub fn look_up_columns(&self, names: &[&[u8]], out: &mut [i64]) {
        let mut out = out.chunks_exact_mut(self.columns());
        self.find_all(names, |counts| match (out.next(), counts) {
            (Some(place), Some(counts)) => place.copy_from_slice(counts),
            (Some(place), None) => place.fill(0),
            (None, _) => {}
        });
    }

    /// Calls `report` with the counts of each name, in their order.
    ///
    /// One loop after the other: the processor fetches the lines of many slots at once, and then those of many rows,
    /// which are likely to be wanted, before any name is compared.
    #[inline]
    fn find_all<'a>(&'a self, names: &[&[u8]], mut report: impl FnMut(Option<&'a [i64]>)) {
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
                prefetch(&self.words[row * self.stride]);
                prefetch(&self.words[row * self.stride + self.stride - 1]); // a row may lie in two lines
            }
        }
        for (sought, name) in sought.iter_mut().zip(names) {
            report(match self.find_sought(name, sought) {
                Found::Row(row) => Some(self.counts(row)),
                Found::Nothing(_) => None,
            });
        }
    }

    #[inline]
    fn row(&self, row: usize) -> &[i64] {
        &self.words[row * self.stride..][..self.stride]
    }

    #[inline]
    fn counts(&self, row: usize) -> &[i64] {
        &self.row(row)[NAME_WORDS..]
    }

    /// Begins to fetch the slot where the search for a hash begins.
    pub fn prefetch_slot(&self, hash: u64) {
        prefetch(&self.slots[self.first_slot(hash)]);
    }

    /// Has `change` change the counts of a name, and returns them, or nothing where it has no row. There is room for it.
    pub fn set(
        &mut self,
        name: &[u8],
        (hash, words): HashedName,
        change: impl FnOnce(&mut [i64]),
    ) -> Option<&[i64]> {
        let mut sought = Sought {
            hash,
            words,
            slot: self.first_slot(hash),
            content: 0,
        };
        self.seek(&mut sought);
        let (row, new_slot) = match self.find_sought(name, &mut sought) {
            Found::Row(row) => (row, None),
            Found::Nothing(slot) => (self.len, Some(slot)),
        };
        let start = row * self.stride;
        if new_slot.is_some() {
            self.words.resize(start + self.stride, 0);
        }
        let counts = &mut self.words[start + NAME_WORDS..start + self.stride];
        let was = any(counts);
        change(counts);
        let is = any(counts);
        if let Some(slot) = new_slot {
            if !is {
                self.words.truncate(start);
                return None;
            }
            self.write_name(start, name, words);
            self.len += 1;
            self.slots[slot] = hash << 32 | self.len as u64;
        }
        if was != is {
            self.note_presence(name, is);
        }
        Some(self.counts(row))
    }

    /// Calls `report` with the name and the counts of each name that has a count other than zero, of `count` rows from
    /// `first` on.
    pub fn for_each(&self, first: usize, count: usize, mut report: impl FnMut(&[u8], &[i64])) {
        for row in first..self.len.min(first.saturating_add(count)) {
            let counts = self.counts(row);
            if any(counts) {
                let name = self.name_words(row);
                match names::place_of_long_name(name) {
                    Some(place) => report(&self.long_names[place], counts),
                    None => {
                        let (bytes, length) = names::held_name(name);
                        report(&bytes[..length], counts);
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
        let words = self.name_words(row);
        if name.len() <= names::MAX_SHORT {
            return words == short;
        }
        names::place_of_long_name(words).map_or(false, |place| self.long_names[place] == *name)
    }

    #[inline]
    fn name_words(&self, row: usize) -> [u64; NAME_WORDS] {
        let words = self.row(row);
        [words[0] as u64, words[1] as u64, words[2] as u64]
    }

    /// Writes a name into the row whose words begin at `start`.
    fn write_name(&mut self, start: usize, name: &[u8], short: [u64; NAME_WORDS]) {
        let words = if name.len() <= names::MAX_SHORT {
            short
        } else {
            let at = self.long_names.len();
            self.long_names.extend_from_slice(name);
            names::long_name(at, name.len())
        };
        self.words[start..start + NAME_WORDS].copy_from_slice(&words.map(|word| word as i64));
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

/// Returns whether a name with these counts is there.
#[inline]
fn any(counts: &[i64]) -> bool {
    counts.iter().any(|&count| count != 0)
}

/// Returns room for the words of so many rows.
fn words_for(rows: usize, stride: usize) -> Vec<i64> {
    let words = Vec::with_capacity(rows * stride);
    huge_pages::ask_for(words.as_ptr(), words.capacity());
    words
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
