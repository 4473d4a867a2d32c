//! Ending the retention of a run at once, for tests of what is told of erased runs.
//!
//! The protocol's own checks call this without a credential, so whoever does has to know a token
//! that whoever runs the server has chosen. A server without one does it for nobody.

use kernel::audit::Actor;
use kernel::digest::Digest;
use kernel::ids::StreamId;
use store::StoreError;
use subtle::ConstantTimeEq;

use super::Api;
use crate::upkeep::{self, Expired};

/// What whoever ends a run's retention has to name. Only its digest is kept.
#[derive(Clone, Debug)]
pub struct ExpiryToken(Digest);

impl ExpiryToken {
    /// Characters it has at least, so that nobody guesses it.
    pub const LEAST: usize = 24;

    /// A token; `None` where it is too short.
    pub fn of(text: &str) -> Option<Self> {
        let is_long = text.chars().count() >= Self::LEAST;
        is_long.then(|| Self(Digest::of(text.as_bytes())))
    }

    /// Whether this is it, in a time that does not depend on where they differ.
    fn is(&self, text: &str) -> bool {
        Digest::of(text.as_bytes()).0.ct_eq(&self.0.0).into()
    }
}

/// Who that is on a trail: they show no credential.
const EXPIRER: &str = "expire-token";

impl Api {
    /// The same where whoever knows a token may end the retention of runs.
    pub fn with_expiry(self, expiry: Option<ExpiryToken>) -> Self {
        Self { expiry, ..self }
    }

    /// Whether somebody may end the retention of runs.
    pub fn can_expire(&self) -> bool {
        self.expiry.is_some()
    }

    /// Erases a run that has ended, and those it started, as when its retention is over. `None`
    /// where the token is not the one.
    ///
    /// # Errors
    /// The store's; `Missing` for an unknown run.
    pub async fn expire(&self, token: &str, run: &StreamId) -> Result<Option<Expired>, StoreError> {
        match &self.expiry {
            Some(expiry) if expiry.is(token) => {
                let by = Actor::new(EXPIRER);
                upkeep::expire(&self.engine, run, &by).await.map(Some)
            }
            _ => Ok(None),
        }
    }
}
