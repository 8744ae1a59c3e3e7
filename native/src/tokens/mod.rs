//! See `nbstream/tokens`.

pub mod token_list;
