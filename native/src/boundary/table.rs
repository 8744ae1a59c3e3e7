//! The C functions of `table`. Python owns the memory of a table and keeps it until the table is closed.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::AtomicU64;

use crate::mail::bytes::split;
use crate::table::layout::{Layout, HEADER_WORDS};
use crate::table::names::is_sum;
use crate::table::{Counts, Table, TableError};

/// A table as the callers of the C functions know it.
pub type TableHandle = Table<'static>;

const WORD_BYTES: usize = 8;
const DESCRIPTION_WORDS: usize = 23;
const PANICKED: i64 = -7;

fn code(error: TableError) -> i64 {
    match error {
        TableError::Arguments => -1,
        TableError::Full => -2,
        TableError::Damaged => -3,
        TableError::Busy => -4,
        TableError::Unfinished => -5,
        TableError::NotBegun => -6,
    }
}

/// Runs `work`; returns what it returns, or the code of the error.
pub fn answer(work: impl FnOnce() -> Result<i64, TableError>) -> i64 {
    catch_unwind(AssertUnwindSafe(work))
        .map(|result| result.unwrap_or_else(code))
        .unwrap_or(PANICKED)
}

/// Returns the `count` values at `start`.
///
/// # Safety
/// They are there and nobody changes them during the call of the C function.
pub unsafe fn values<'a, T>(start: *const T, count: usize) -> &'a [T] {
    if count == 0 || start.is_null() {
        return &[];
    }
    // SAFETY: the caller vouches for it.
    unsafe { std::slice::from_raw_parts(start, count) }
}

/// Returns room for `count` values at `start`.
///
/// # Safety
/// The room is there, and nobody else uses it during the call of the C function.
pub unsafe fn room<'a, T>(start: *mut T, count: usize) -> &'a mut [T] {
    if count == 0 || start.is_null() {
        return &mut [];
    }
    // SAFETY: the caller vouches for it.
    unsafe { std::slice::from_raw_parts_mut(start, count) }
}

/// Returns the words of a region.
///
/// # Safety
/// The region is mapped for as long as the words are used. Other processes change it by atomic stores alone.
unsafe fn words(region: *mut u8, length: usize) -> Result<&'static [AtomicU64], TableError> {
    if region.is_null() || region as usize % WORD_BYTES != 0 {
        return Err(TableError::Arguments);
    }
    // SAFETY: aligned and not null; an AtomicU64 is like a u64, and every content is one. The caller vouches for the rest.
    Ok(unsafe { std::slice::from_raw_parts(region as *const AtomicU64, length / WORD_BYTES) })
}

/// Returns the table behind a handle.
///
/// # Safety
/// `nbn_table_open` returned it, and it was not closed.
pub unsafe fn table<'a>(handle: *const TableHandle) -> Result<&'a TableHandle, TableError> {
    // SAFETY: the caller vouches for it.
    unsafe { handle.as_ref() }.ok_or(TableError::Arguments)
}

/// Returns the names in `joined`, which are separated by line feeds.
pub fn split_names(joined: &[u8], count: usize) -> Result<Vec<&[u8]>, TableError> {
    let names = if count > 0 {
        split(joined, b'\n', count.min(joined.len() + 1))
    } else {
        Vec::new()
    };
    if names.len() == count {
        Ok(names)
    } else {
        Err(TableError::Arguments)
    }
}

/// Returns the bytes of memory that a table of this size takes.
#[no_mangle]
pub extern "C" fn nbn_table_bytes(rows: u64, long_name_words: u64) -> i64 {
    answer(|| Ok((Layout::new(rows, long_name_words)?.words() * WORD_BYTES) as i64))
}

/// Writes an empty table into a region of zeros. `key_and_identity` has four words.
///
/// # Safety
/// The region is mapped and writable, and nobody else uses it; `key_and_identity` points to four words.
#[no_mangle]
pub unsafe extern "C" fn nbn_table_create(
    region: *mut u8,
    length: usize,
    rows: u64,
    long_name_words: u64,
    key_and_identity: *const u64,
) -> i64 {
    answer(|| {
        // SAFETY: by the contract of this function.
        let (words, four) = unsafe { (words(region, length)?, values(key_and_identity, 4)) };
        match *four {
            [a, b, c, d] => Table::create(words, rows, long_name_words, [a, b], [c, d]).map(|_| 0),
            _ => Err(TableError::Arguments),
        }
    })
}

/// Opens the table in a region and returns a handle; null where there is no table.
///
/// # Safety
/// The region stays mapped until `nbn_table_close`; it may be read-only for a reader.
#[no_mangle]
pub unsafe extern "C" fn nbn_table_open(region: *mut u8, length: usize) -> *mut TableHandle {
    let open = || {
        // SAFETY: by the contract of this function.
        let table = Table::open(unsafe { words(region, length)? })?;
        Ok::<_, TableError>(Box::into_raw(Box::new(table)))
    };
    match catch_unwind(AssertUnwindSafe(open)) {
        Ok(Ok(handle)) => handle,
        _ => std::ptr::null_mut(),
    }
}

/// Closes a table.
///
/// # Safety
/// `nbn_table_open` returned the handle, and it is not used any more.
#[no_mangle]
pub unsafe extern "C" fn nbn_table_close(handle: *mut TableHandle) {
    if !handle.is_null() {
        // SAFETY: `nbn_table_open` made it by `Box::into_raw`.
        drop(unsafe { Box::from_raw(handle) });
    }
}

/// Writes what is known of the table into `out`: 23 words, in the order that the header file gives.
///
/// # Safety
/// `handle` is open, and `out` points to 23 words.
#[no_mangle]
pub unsafe extern "C" fn nbn_table_describe(handle: *const TableHandle, out: *mut i64) -> i64 {
    answer(|| {
        // SAFETY: by the contract of this function.
        let (table, out) = unsafe { (table(handle)?, room(out, DESCRIPTION_WORDS)) };
        let ((state, usage), identity) = (table.description()?, table.identity());
        let values = [
            state.epoch as i64,
            state.totals[0],
            state.totals[1],
            state.totals[2],
            state.totals[3],
            state.totals[4],
            state.position[0] as i64,
            state.position[1] as i64,
            state.position[2] as i64,
            state.position[3] as i64,
            state.position[4] as i64,
            state.position[5] as i64,
            state.names as i64,
            state.sums as i64,
            usage.rows as i64,
            usage.rows_used as i64,
            usage.rows_reserved as i64,
            usage.long_name_words as i64,
            usage.long_names_used as i64,
            usage.long_names_reserved as i64,
            identity[0] as i64,
            identity[1] as i64,
            ((HEADER_WORDS + usage.slots) * WORD_BYTES) as i64,
        ];
        out.copy_from_slice(&values);
        Ok(0)
    })
}

/// Looks up `count` names. `rows` gets two counts for each, `totals` five numbers, all after the same change.
///
/// # Safety
/// `handle` is open, and the other pointers lead to as much memory as is said.
#[no_mangle]
pub unsafe extern "C" fn nbn_table_look_up(
    handle: *const TableHandle,
    joined: *const u8,
    length: usize,
    rows: *mut i64,
    count: usize,
    totals: *mut i64,
) -> i64 {
    answer(|| {
        // SAFETY: by the contract of this function; two counts lie one after the other, as in an array of two.
        let (table, joined, rows, totals) = unsafe {
            (
                table(handle)?,
                values(joined, length),
                room(rows as *mut Counts, count),
                room(totals, 5),
            )
        };
        let state = table.look_up(&split_names(joined, count)?, rows)?;
        totals.copy_from_slice(&state.totals);
        Ok(0)
    })
}

/// Writes the counts of the names in `table_rows` rows from `first` on that have any, and these names, separated by line
/// feeds, where `names` is not null.
///
/// `without_sums`: only tokens. Returns how many there are; `names_length` gets the bytes that their names take.
///
/// # Safety
/// `handle` is open; `rows` has room for two counts of `count` names, `names` for `capacity` bytes.
#[no_mangle]
pub unsafe extern "C" fn nbn_table_read(
    handle: *const TableHandle,
    first: u64,
    table_rows: u64,
    without_sums: u32,
    rows: *mut i64,
    count: usize,
    names: *mut u8,
    capacity: usize,
    names_length: *mut u64,
) -> i64 {
    answer(|| {
        // SAFETY: by the contract of this function; two counts lie one after the other, as in an array of two.
        let (table, rows, text, names_length) = unsafe {
            (
                table(handle)?,
                room(rows as *mut Counts, count),
                room(names, capacity),
                room(names_length, 1),
            )
        };
        let (mut found, mut used, mut fits) = (0, 0, true);
        let end = first.saturating_add(table_rows);
        table.for_each(first as usize..end as usize, |name, counts| {
            if without_sums != 0 && is_sum(name) {
                return;
            }
            let start = used + usize::from(found > 0);
            match rows.get_mut(found) {
                Some(row) => *row = counts,
                None => fits = false,
            }
            if !names.is_null() {
                match text.get_mut(used..start + name.len()) {
                    Some(room) => {
                        if start > used {
                            room[0] = b'\n';
                        }
                        room[start - used..].copy_from_slice(name);
                    }
                    None => fits = false,
                }
                used = start + name.len();
            }
            found += 1;
        })?;
        if !fits {
            return Err(TableError::Full);
        }
        names_length.fill(used as u64);
        Ok(found as i64)
    })
}

/// Lets the table use this many rows and words of long names, whose memory is there.
///
/// # Safety
/// `handle` is open, its region writable, and this process its only writer.
#[no_mangle]
pub unsafe extern "C" fn nbn_table_reserve(
    handle: *const TableHandle,
    rows: u64,
    long_name_words: u64,
) -> i64 {
    // SAFETY: by the contract of this function.
    answer(|| {
        unsafe { table(handle) }?
            .reserve(rows, long_name_words)
            .map(|_| 0)
    })
}

/// Begins a change.
///
/// # Safety
/// As for `nbn_table_reserve`.
#[no_mangle]
pub unsafe extern "C" fn nbn_table_begin(handle: *const TableHandle) -> i64 {
    // SAFETY: by the contract of this function.
    answer(|| unsafe { table(handle) }?.begin().map(|_| 0))
}

/// Sets the counts of `count` names to `rows`, two for each. After "full" the same call may be repeated.
///
/// # Safety
/// As for `nbn_table_reserve`; the other pointers lead to as much memory as is said.
#[no_mangle]
pub unsafe extern "C" fn nbn_table_set_counts(
    handle: *const TableHandle,
    joined: *const u8,
    length: usize,
    rows: *const i64,
    count: usize,
) -> i64 {
    answer(|| {
        // SAFETY: by the contract of this function; two counts lie one after the other, as in an array of two.
        let (table, joined, rows) = unsafe {
            (
                table(handle)?,
                values(joined, length),
                values(rows as *const Counts, count),
            )
        };
        let names = split_names(joined, count)?;
        if rows.len() != names.len() {
            return Err(TableError::Arguments);
        }
        table.set_all(&names, |i, _| rows[i]).map(|()| 0)
    })
}

/// Sets the counts of `count` names in one class to `counts`. After "full" the same call may be repeated.
///
/// # Safety
/// As for `nbn_table_set_counts`.
#[no_mangle]
pub unsafe extern "C" fn nbn_table_set_column(
    handle: *const TableHandle,
    joined: *const u8,
    length: usize,
    counts: *const i64,
    count: usize,
    column: u32,
) -> i64 {
    answer(|| {
        // SAFETY: by the contract of this function.
        let (table, joined, counts) = unsafe {
            (
                table(handle)?,
                values(joined, length),
                values(counts, count),
            )
        };
        let with = |old: Counts, count: i64| match column {
            0 => [count, old[1]],
            _ => [old[0], count],
        };
        if column > 1 {
            return Err(TableError::Arguments);
        }
        let names = split_names(joined, count)?;
        if counts.len() != names.len() {
            return Err(TableError::Arguments);
        }
        table
            .set_all(&names, |i, old| with(old, counts[i]))
            .map(|()| 0)
    })
}

/// Makes the change visible, with these totals (five numbers) and this position (six).
///
/// # Safety
/// As for `nbn_table_set_counts`.
#[no_mangle]
pub unsafe extern "C" fn nbn_table_commit(
    handle: *const TableHandle,
    totals: *const i64,
    position: *const u64,
) -> i64 {
    answer(|| {
        // SAFETY: by the contract of this function.
        let (table, totals, position) =
            unsafe { (table(handle)?, values(totals, 5), values(position, 6)) };
        match (totals, position) {
            (&[a, b, c, d, e], &[u, v, w, x, y, z]) => {
                table.commit([a, b, c, d, e], [u, v, w, x, y, z]).map(|_| 0)
            }
            _ => Err(TableError::Arguments),
        }
    })
}

/// Takes back a change that was not committed, in at most `rows` rows from `first` on.
///
/// Returns the row to go on with, 0 when all is done.
///
/// # Safety
/// As for `nbn_table_reserve`.
#[no_mangle]
pub unsafe extern "C" fn nbn_table_roll_back(
    handle: *const TableHandle,
    first: u64,
    rows: u64,
) -> i64 {
    answer(|| {
        // SAFETY: by the contract of this function.
        let next = unsafe { table(handle) }?.roll_back(first as usize, rows as usize)?;
        Ok(next.unwrap_or(0) as i64)
    })
}

/// Copies the counts of at most `rows` rows from `first` on into `target`, in which a change was begun.
///
/// Returns the row to go on with, 0 when all is done. After "full" the same call may be repeated.
///
/// # Safety
/// As for `nbn_table_reserve`, for both tables.
#[no_mangle]
pub unsafe extern "C" fn nbn_table_copy_rows(
    handle: *const TableHandle,
    target: *const TableHandle,
    first: u64,
    rows: u64,
) -> i64 {
    answer(|| {
        // SAFETY: by the contract of this function.
        let (table, target) = unsafe { (table(handle)?, table(target)?) };
        let next = table.copy_rows(target, first as usize, rows as usize)?;
        Ok(next.unwrap_or(0) as i64)
    })
}
