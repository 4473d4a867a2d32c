//! The in-memory reference store.
