//! See `nbstream/tokens`.

pub mod ascii;
pub mod authentication;
pub mod characters;
pub mod encoding;
pub mod header_tokens;
pub mod html;
pub mod html_references;
pub mod lower_text;
pub mod raw_header;
pub mod signatures;
pub mod structure;
pub mod token_list;
pub mod tokenizer;
pub mod unicode;
pub mod urls;
pub mod words;
