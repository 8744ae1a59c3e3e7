//! The C functions of `name_numbers`.

use super::table::{answer, room, split_names, values};
use crate::name_numbers::NameNumbers;
use crate::table::TableError;

/// Makes an object without names.
///
/// # Safety
/// `key` points to two words.
#[no_mangle]
pub unsafe extern "C" fn nbn_names_new(key: *const u64) -> *mut NameNumbers {
    // SAFETY: by the contract of this function; Python's bytes need not be aligned.
    let key = unsafe { (key as *const [u64; 2]).read_unaligned() };
    Box::into_raw(Box::new(NameNumbers::new(key)))
}

/// Frees what `nbn_names_new` has made.
///
/// # Safety
/// It has made `numbers`, and nobody uses them any more.
#[no_mangle]
pub unsafe extern "C" fn nbn_names_free(numbers: *mut NameNumbers) {
    // SAFETY: by the contract of this function.
    drop(unsafe { Box::from_raw(numbers) });
}

/// Writes the numbers of `count` names. Returns how many names there are then.
///
/// # Safety
/// `numbers` is as in `nbn_names_free` and used by nobody else, `joined` has `length` bytes, and `out` room for `count`.
#[no_mangle]
pub unsafe extern "C" fn nbn_names_number(
    numbers: *mut NameNumbers,
    joined: *const u8,
    length: usize,
    out: *mut i64,
    count: usize,
) -> i64 {
    answer(|| {
        // SAFETY: by the contract of this function.
        let (numbers, joined, out) =
            unsafe { (&mut *numbers, values(joined, length), room(out, count)) };
        numbers
            .number(&split_names(joined, count)?, out)
            .ok_or(TableError::Full)?;
        Ok(numbers.len() as i64)
    })
}

/// Writes the names from number `first` on, where they fit into `out`. Returns how many bytes they have.
///
/// # Safety
/// `numbers` is as in `nbn_names_number`, and `out` has room for `capacity` bytes.
#[no_mangle]
pub unsafe extern "C" fn nbn_names_joined(
    numbers: *const NameNumbers,
    first: usize,
    out: *mut u8,
    capacity: usize,
) -> i64 {
    answer(|| {
        // SAFETY: by the contract of this function.
        let (numbers, out) = unsafe { (&*numbers, room(out, capacity)) };
        let joined = numbers.joined(first);
        if let Some(places) = out.get_mut(..joined.len()) {
            places.copy_from_slice(joined);
        }
        Ok(joined.len() as i64)
    })
}
