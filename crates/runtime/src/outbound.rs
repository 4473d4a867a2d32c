//! Requests to the outside.

/// Sends HTTP requests to the outside.
#[derive(Clone, Debug, Default)]
pub struct Outbound {}
