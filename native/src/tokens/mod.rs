//! See `nbstream/tokens`.
