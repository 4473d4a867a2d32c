//! The shape of a snapshot as a JSON Schema.

/// The schema as a text. Draft 2020-12, where `format` says nothing unless a validator is told to
/// assert it: ours is.
pub const SCHEMA: &str = include_str!("schema.json");
