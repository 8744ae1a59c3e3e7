//! The parts of nbstream that cost most: a message is tokenized, and its tokens are scored.
//!
//! Python is the specification: each module here has the name of a Python module, the names of its functions
//! and their order, and gives the same bytes and the same bits. Where a piece of a message needs what
//! Python alone has (rare charsets, some rules beyond ASCII), Python is asked: see `foreign`.

#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]

#[allow(unsafe_code)] // pointers come from C and go there
pub mod boundary;
pub mod foreign;
pub mod mail;
pub mod name_numbers;
pub mod score;
pub mod table;
pub mod tokens;
