//! See `nbstream/table`.
