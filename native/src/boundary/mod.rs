//! The C interface, `nbstream/engine/interface.h`. All `unsafe` code is here, but for two calls of `table::rows` that
//! fetch memory ahead and ask for huge pages.

pub mod score;
pub mod table;

mod name_numbers;
mod private_tokens;
mod tokenize;

const INTERFACE: &[u8] = include_bytes!("../../../nbstream/engine/interface.h");
const TOKENIZER: &[u8] = include_bytes!("../../../nbstream/tokens/__init__.py"); // its version is there
const PACKAGE: &[u8] = include_bytes!("../../../nbstream/__init__.py"); // and that of nbstream here

/// FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv/), of what follows the text with the hash `before`.
const fn fnv1a(before: u64, text: &[u8]) -> u64 {
    let mut hash = before;
    let mut i = 0;
    while i < text.len() {
        hash = (hash ^ text[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}

const CHECKSUM: u64 = fnv1a(
    fnv1a(fnv1a(0xcbf2_9ce4_8422_2325, INTERFACE), TOKENIZER),
    PACKAGE,
);

/// The checksum of the interface, of the tokenizer's version and of nbstream's that this library was built with.
#[no_mangle]
pub extern "C" fn nbn_interface_checksum() -> u64 {
    CHECKSUM
}
