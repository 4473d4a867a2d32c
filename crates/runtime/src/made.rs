//! What is kept under the key of a request that made a run.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// What was made for a request. It names the run, because a key outlives what it was claimed
/// with: a request whose run was erased since is answered as before, and makes nothing again.
#[derive(Serialize, Deserialize)]
pub(crate) struct Made<'a> {
    /// The run.
    #[serde(borrow)]
    pub(crate) run: Cow<'a, str>,
    /// What was answered of it.
    #[serde(borrow)]
    pub(crate) said: Cow<'a, str>,
}

impl Made<'_> {
    /// As it is kept.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}
