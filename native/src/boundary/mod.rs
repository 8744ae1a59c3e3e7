//! The C interface, `nbstream/engine/interface.h`. All `unsafe` code is here.

pub mod score;
pub mod table;

mod take_apart;

const INTERFACE: &[u8] = include_bytes!("../../../nbstream/engine/interface.h");
const TOKENIZER_VERSION: u32 = 5;

/// FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv/).
const fn fnv1a(text: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut i = 0;
    while i < text.len() {
        hash = (hash ^ text[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}

const CHECKSUM: u64 = fnv1a(INTERFACE);

/// The checksum of the interface that this library was built with.
#[no_mangle]
pub extern "C" fn nbn_interface_checksum() -> u64 {
    CHECKSUM
}

/// The version of the tokenizer whose tokens this library makes: `TOKENIZER_VERSION` of `nbstream.tokens`.
#[no_mangle]
pub extern "C" fn nbn_tokenizer_version() -> u32 {
    TOKENIZER_VERSION
}
