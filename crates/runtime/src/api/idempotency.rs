//! Idempotency keys: the same key and the same request have one effect and one answer.
//!
//! The key is claimed in the transaction that has the effect, so that there is no moment at
//! which one is there without the other.

use std::time::Duration;

use kernel::batch::KeyClaim;
use kernel::digest::Digest;
use kernel::ids::{StreamId, TenantId};

use super::{Api, ApiError};

const NAMESPACE: &str = "idempotency";
/// How long an answer is given again. The protocol asks for a day at least.
const KEPT: Duration = Duration::from_secs(48 * 3600);

/// What a request is recognised by when it comes again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedBy {
    /// What the client chose, 1 to 255 characters.
    pub key: String,
    /// The operation and what it is done to, as `POST /v1/runs`.
    pub operation: String,
    /// The digest of the request's canonical body.
    pub request: Digest,
}

impl KeyedBy {
    /// The stored key: a digest, so that no list of keys tells what clients chose.
    fn name(&self, tenant: &TenantId) -> String {
        let Self { key, operation, .. } = self;
        Digest::of(format!("{tenant}\0{operation}\0{key}").as_bytes()).to_string()
    }

    /// The claim of an effect whose answer is known.
    pub(super) fn claim(
        &self,
        tenant: &TenantId,
        answer: &str,
        now: kernel::time::Timestamp,
    ) -> KeyClaim {
        KeyClaim {
            namespace: NAMESPACE.into(),
            key: self.name(tenant),
            digest: Some(self.request),
            answer: Some(answer.as_bytes().to_vec()),
            expires_at: Some(now.plus(KEPT)),
        }
    }
}

/// The answer that was given to the first of equal requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The run it was about.
    pub run: StreamId,
    /// The status that was answered.
    pub status: String,
}

impl Api {
    /// The answer to give again, if the request came before.
    pub(super) async fn replayed(
        &self,
        tenant: &TenantId,
        keyed: &KeyedBy,
    ) -> Result<Option<Replayed>, ApiError> {
        let store = self.door().store();
        let row = store.key(tenant, NAMESPACE, &keyed.name(tenant)).await?;
        let Some(row) = row else { return Ok(None) };
        if row.digest != Some(keyed.request) {
            return Err(ApiError::KeyMismatch);
        }
        let status = row.answer.unwrap_or_default();
        Ok(Some(Replayed {
            run: row.stream,
            status: String::from_utf8(status).unwrap_or_default(),
        }))
    }
}
