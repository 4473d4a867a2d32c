//! The value stored under the key of a request that made a run.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The run made for a request. It names the run, because a key outlives it: a request whose run was
/// erased since gets the same response and makes nothing again.
#[derive(Serialize, Deserialize)]
pub(crate) struct CreatedRecord<'a> {
    #[serde(borrow)]
    pub(crate) run: Cow<'a, str>,
    /// The response.
    #[serde(borrow)]
    pub(crate) said: Cow<'a, str>,
}

impl CreatedRecord<'_> {
    /// The stored form.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}
