//! Errors of a store, grouped by the caller's next step.

use std::fmt::Display;

use kernel::batch::KeyClaim;

/// Why a store refused or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another writer was first. Load again and decide again.
    #[error("another writer was first: {0}")]
    Conflict(Conflict),
    /// The caller no longer holds the stream. Stop driving it.
    #[error("the lease on the stream has passed to another holder")]
    Fenced,
    /// Unknown stream or blob.
    #[error("not in the store")]
    Missing,
    /// The stored bytes differ from the written ones. Nothing was changed.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// The store is temporarily unable to do this. Nothing was acknowledged, but an append may have
    /// been written: read the log before deciding again. Every other method may be repeated.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
}

/// The text of [`StoreError::Corrupt`] for a log in which an event is missing.
const GAP: &str = "the log of a stream has a gap";

impl StoreError {
    /// The store, or something that a stored value needs, failed.
    pub fn unavailable(error: impl Display) -> Self {
        Self::Unavailable(error.to_string())
    }

    /// An event of a log is missing.
    pub fn gap() -> Self {
        Self::Corrupt(GAP.into())
    }

    /// The value that was read; `None` if it is damaged.
    ///
    /// # Errors
    /// Every other error.
    pub fn unless_damaged<T>(read: Result<T, Self>) -> Result<Option<T>, Self> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(Self::Corrupt(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether an event of a log is missing, as opposed to altered.
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
    /// Another holder has the stream, or its concurrency key is in use.
    #[error("another holder has the lease of the stream")]
    Held,
}
