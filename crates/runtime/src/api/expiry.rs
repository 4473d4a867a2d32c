//! Ending the retention of a run at once, for tests of the erasure of runs.
//!
//! The protocol's own checks call this without a credential, so the caller must know a token that
//! the operator has chosen. A server without one rejects every call.

use kernel::audit::Actor;
use kernel::digest::Digest;
use kernel::ids::StreamId;
use store::StoreError;
use subtle::ConstantTimeEq;

use super::Api;
use crate::engine::maintenance::{self, Expired};

/// The token that ends a run's retention. Only its digest is kept.
#[derive(Clone, Debug)]
pub struct ExpiryToken(Digest);

impl ExpiryToken {
    /// The fewest characters, so that it cannot be guessed.
    pub const LEAST: usize = 24;

    /// A token from its text; `None` if it is too short.
    pub fn parse(text: &str) -> Option<Self> {
        let is_long = text.chars().count() >= Self::LEAST;
        is_long.then(|| Self(Digest::compute(text.as_bytes())))
    }

    /// Compares in constant time.
    fn is(&self, text: &str) -> bool {
        Digest::compute(text.as_bytes()).0.ct_eq(&self.0.0).into()
    }
}

/// The actor on the audit trail: the call has no credential.
const EXPIRER: &str = "expire-token";

impl Api {
    /// The same with a token that ends the retention of runs.
    pub fn with_expiry(self, expiry: Option<ExpiryToken>) -> Self {
        Self { expiry, ..self }
    }

    /// Whether a token to end retention is configured.
    pub fn can_expire(&self) -> bool {
        self.expiry.is_some()
    }

    /// Erases a run that has ended and the runs it started, as at the end of its retention. `None`
    /// if the token is wrong.
    ///
    /// # Errors
    /// The store's; `Missing` for an unknown run.
    pub async fn expire(&self, token: &str, run: &StreamId) -> Result<Option<Expired>, StoreError> {
        match &self.expiry {
            Some(expiry) if expiry.is(token) => {
                let by = Actor::new(EXPIRER);
                maintenance::expire(&self.engine, run, &by, maintenance::OVER)
                    .await
                    .map(Some)
            }
            _ => Ok(None),
        }
    }
}
