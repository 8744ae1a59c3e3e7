//! See `nbstream/tokens`.

pub mod ascii;
pub mod authentication;
pub mod encoding;
pub mod header_tokens;
pub mod raw_header;
pub mod signatures;
pub mod structure;
pub mod token_list;
pub mod urls;
pub mod words;
