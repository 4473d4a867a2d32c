//! The shape of a snapshot as a JSON Schema.

/// The schema as a text. Draft 2020-12, where `format` is only checked if a validator is told so:
/// ours is.
pub const SCHEMA: &str = include_str!("schema.json");
