//! Requests to the outside.
/// x
#[derive(Clone)]
pub struct Outbound;
