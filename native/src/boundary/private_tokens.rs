//! `nbn_hash_tokens`: tokens become the names of private tokens.

use super::table::{answer, room, values};
use crate::table::siphash::eight_bytes;
use crate::table::TableError;
use crate::tokens::private_tokens::hash_tokens;

const KEY_BYTES: usize = 16;

/// Hashes tokens; see the interface.
///
/// # Safety
/// `key` has 16 bytes, `joined` has `length` bytes, and `out` has room for `capacity` bytes.
#[no_mangle]
pub unsafe extern "C" fn nbn_hash_tokens(
    key: *const u8,
    joined: *const u8,
    length: usize,
    out: *mut u8,
    capacity: usize,
) -> i64 {
    answer(|| {
        // SAFETY: by the contract of this function.
        let (key, joined, out) = unsafe {
            (
                values(key, KEY_BYTES),
                values(joined, length),
                room(out, capacity),
            )
        };
        let key = [eight_bytes(key, 0), eight_bytes(key, 8)];
        let names = hash_tokens(key, joined);
        let places = out.get_mut(..names.len()).ok_or(TableError::Arguments)?;
        places.copy_from_slice(&names);
        Ok(names.len() as i64)
    })
}
