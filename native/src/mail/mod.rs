//! See `nbstream/mail`.
