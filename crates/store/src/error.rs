//! What can go wrong in a store, by what the caller does next.

use kernel::batch::KeyClaim;

/// Why a store refused or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Somebody else was first. Load again and decide again.
    #[error("somebody else was first: {0}")]
    Conflict(Conflict),
    /// The caller does not hold the stream any more. Stop driving it.
    #[error("the hold on the stream has passed to another holder")]
    Fenced,
    /// There is no such stream or blob.
    #[error("not in the store")]
    Missing,
    /// The stored bytes are not what was written. Nothing was changed.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// The store could not do it now; nothing was acknowledged. Trying again is safe.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
}

/// What [`StoreError::Corrupt`] says of a log in which an event is not there.
pub const GAP: &str = "the log of a stream has a gap";

impl StoreError {
    /// Whether an event of a log is not there, rather than another than was written.
    pub fn is_gap(&self) -> bool {
        matches!(self, Self::Corrupt(what) if what == GAP)
    }

    /// The refusal of a claim whose key is taken.
    pub fn key_taken(claim: &KeyClaim) -> Self {
        let (namespace, key) = (claim.namespace.clone(), claim.key.clone());
        Self::Conflict(Conflict::Key { namespace, key })
    }
}

/// Which row was taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// The log is longer or shorter than the batch expects, or already exists.
    #[error("the log has moved on")]
    Sequence,
    /// A unique key is taken.
    #[error("the key is taken in {namespace}")]
    Key {
        /// The namespace of the key.
        namespace: String,
        /// The key.
        key: String,
    },
    /// The stream is held by somebody else, or its concurrency key is in use.
    #[error("the stream is held by another holder")]
    Held,
}
