//! See `nbstream/score`.
