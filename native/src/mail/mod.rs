//! See `nbstream/mail`: bytes in, the parts, the header fields and the key of a message out.

pub mod added_fields;
pub mod base32;
pub mod blake2b;
pub mod bytes;
pub mod charsets;
pub mod encoded_words;
pub mod header_fields;
pub mod message;
pub mod mime;
pub mod parameters;
pub mod transfer_encodings;
pub mod unread_end;
