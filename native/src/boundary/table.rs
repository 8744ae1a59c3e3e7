//! The C functions of `table`.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Mutex, MutexGuard};

use crate::mail::bytes::split;
use crate::table::{Counts, Table, TableError};

/// A table as the callers of the C functions know it: one thread at a time uses it.
pub type TableHandle = Mutex<Table>;

const PANICKED: i64 = -3;

/// Runs `work`; returns what it returns, or the code of the error.
pub fn answer(work: impl FnOnce() -> Result<i64, TableError>) -> i64 {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(result)) => result,
        Ok(Err(TableError::Arguments)) => -1,
        Ok(Err(TableError::Full)) => -2,
        Err(_) => PANICKED,
    }
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

/// Returns the table behind a handle. Panics after a panic that may have left half of a change in it.
///
/// # Safety
/// `nbn_table_new` returned it, and it was not freed.
pub unsafe fn table<'a>(handle: *const TableHandle) -> Result<MutexGuard<'a, Table>, TableError> {
    // SAFETY: the caller vouches for it.
    let table = unsafe { handle.as_ref() }.ok_or(TableError::Arguments)?;
    Ok(table
        .lock()
        .expect("a call for this table has failed before"))
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

/// The table may have got a column since the caller made room for its counts.
fn require_columns(table: &Table, columns: usize) -> Result<(), TableError> {
    if table.columns() == columns {
        Ok(())
    } else {
        Err(TableError::Arguments)
    }
}

/// Makes a table with room for so many names, and some more, and so many columns; null where it cannot be that large.
///
/// # Safety
/// `key` points to two words.
#[no_mangle]
pub unsafe extern "C" fn nbn_table_new(
    key: *const u64,
    names: u64,
    columns: u64,
) -> *mut TableHandle {
    // SAFETY: by the contract of this function; Python's bytes need not be aligned.
    let key = unsafe { (key as *const [u64; 2]).read_unaligned() };
    match catch_unwind(|| Table::new(key, names as usize, columns as usize)) {
        Ok(Ok(table)) => Box::into_raw(Box::new(Mutex::new(table))),
        _ => std::ptr::null_mut(),
    }
}

/// Frees a table.
///
/// # Safety
/// `nbn_table_new` returned the handle, and it is not used any more.
#[no_mangle]
pub unsafe extern "C" fn nbn_table_free(handle: *mut TableHandle) {
    // SAFETY: `nbn_table_new` made it by `Box::into_raw`.
    drop(unsafe { Box::from_raw(handle) });
}

/// Writes what is known of the table into `out`: four words, in the order that the header file gives.
///
/// # Safety
/// `handle` is open, and `out` points to four words.
#[no_mangle]
pub unsafe extern "C" fn nbn_table_describe(handle: *const TableHandle, out: *mut i64) -> i64 {
    answer(|| {
        // SAFETY: by the contract of this function.
        let (table, out) = unsafe { (table(handle)?, room(out, 4)) };
        let usage = table.usage();
        let values = [usage.names, usage.sums, usage.name_bytes, usage.bytes_used];
        out.copy_from_slice(&values.map(|value| value as i64));
        Ok(0)
    })
}

/// Looks up `count` names. `rows` gets the counts of each by label, or where `columns` is not 0 those of each column.
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
    columns: usize,
) -> i64 {
    answer(|| {
        // SAFETY: by the contract of this function.
        let (table, joined) = unsafe { (table(handle)?, values(joined, length)) };
        let names = split_names(joined, count)?;
        if columns != 0 {
            require_columns(&table, columns)?;
            // SAFETY: likewise.
            table.look_up_columns(&names, unsafe { room(rows, count * columns) });
        } else {
            // SAFETY: likewise; two counts lie one after the other, as in an array of two.
            table.look_up(&names, unsafe { room(rows as *mut Counts, count) });
        }
        Ok(0)
    })
}

/// Writes the counts of the names that have any, and these names, separated by line feeds. Returns how many there are;
/// `names_length` gets the bytes that they take.
///
/// # Safety
/// `handle` is open; `rows` has room for the counts of `count` names in all columns, `names` for `capacity` bytes.
#[no_mangle]
pub unsafe extern "C" fn nbn_table_read(
    handle: *const TableHandle,
    rows: *mut i64,
    count: usize,
    columns: usize,
    names: *mut u8,
    capacity: usize,
    names_length: *mut u64,
) -> i64 {
    answer(|| {
        // SAFETY: by the contract of this function.
        let (table, text, names_length) =
            unsafe { (table(handle)?, room(names, capacity), room(names_length, 1)) };
        require_columns(&table, columns)?;
        // SAFETY: likewise.
        let mut places = unsafe { room(rows, count * columns) }.chunks_exact_mut(columns);
        let (mut found, mut used, mut fits) = (0, 0, true);
        table.for_each(|name, counts| {
            let start = used + usize::from(found > 0);
            match (places.next(), text.get_mut(used..start + name.len())) {
                (Some(row), Some(room)) => {
                    row.copy_from_slice(counts);
                    if start > used {
                        room[0] = b'\n';
                    }
                    room[start - used..].copy_from_slice(name);
                }
                _ => fits = false,
            }
            used = start + name.len();
            found += 1;
        });
        if !fits {
            return Err(TableError::Arguments);
        }
        names_length.fill(used as u64);
        Ok(found as i64)
    })
}

/// Sets the counts of `count` names in all columns to `rows`.
///
/// # Safety
/// As for `nbn_table_look_up`.
#[no_mangle]
pub unsafe extern "C" fn nbn_table_set_counts(
    handle: *const TableHandle,
    joined: *const u8,
    length: usize,
    rows: *const i64,
    count: usize,
    columns: usize,
) -> i64 {
    answer(|| {
        // SAFETY: by the contract of this function.
        let (mut table, joined) = unsafe { (table(handle)?, values(joined, length)) };
        let names = split_names(joined, count)?;
        require_columns(&table, columns)?;
        // SAFETY: likewise.
        let rows = unsafe { values(rows, count * columns) };
        table
            .set_all(&names, |i, counts| {
                counts.copy_from_slice(&rows[i * columns..][..columns]);
            })
            .map(|()| 0)
    })
}

/// Sets the counts of `count` names in one column to `counts`.
///
/// # Safety
/// As for `nbn_table_look_up`.
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
        let (mut table, joined, counts) = unsafe {
            (
                table(handle)?,
                values(joined, length),
                values(counts, count),
            )
        };
        let (names, column) = (split_names(joined, count)?, column as usize);
        if column >= table.columns() {
            return Err(TableError::Arguments);
        }
        table
            .set_all(&names, |i, row| row[column] = counts[i])
            .map(|()| 0)
    })
}

/// Adds a column, whose counts are zero.
///
/// # Safety
/// `handle` is open.
#[no_mangle]
pub unsafe extern "C" fn nbn_table_add_column(handle: *const TableHandle) -> i64 {
    answer(|| {
        // SAFETY: by the contract of this function.
        unsafe { table(handle)? }.add_column();
        Ok(0)
    })
}
