//! Reading and verifying the audit trail.

use kernel::audit::{AuditTrail, Event, Report};
use kernel::ids::Seq;
use store::StoreError;

use super::error::ResourceKind;
use super::{Api, ApiError};
use crate::access::checkpoints::{self, Keys};
use crate::access::{Action, Principal, Resource, What, authorise, trail};

/// The result of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The findings.
    pub report: Report,
    /// The length of the trail.
    pub entries: Seq,
}

impl Api {
    /// Recomputes a stretch of the tenant's trail from the stored entries.
    ///
    /// # Errors
    /// A missing scope, a credential bound to a workspace, or the store's.
    pub async fn verify_audit(
        &self,
        who: &Principal,
        from: Seq,
        to: Seq,
    ) -> Result<Verified, ApiError> {
        let trail = Resource::of_tenant(&who.tenant, What::Audit);
        authorise(who, Action::ReadAudit, &trail)
            .map_err(|denied| ApiError::denied(denied, ResourceKind::Trail))?;
        let store = self.door().store();
        let keys = Keys::Own(&*self.engine.inner.ports.keyring);
        let (report, entries) = checkpoints::verify(&**store, &keys, &who.tenant, from, to).await?;
        Ok(Verified { report, entries })
    }

    /// Entries of the tenant's trail before a sequence, newest first, at most `limit`.
    ///
    /// # Errors
    /// As [`Api::verify_audit`].
    pub async fn audit_entries(
        &self,
        who: &Principal,
        before: Option<Seq>,
        limit: u64,
    ) -> Result<Vec<Event>, ApiError> {
        let trail = Resource::of_tenant(&who.tenant, What::Audit);
        authorise(who, Action::ReadAudit, &trail)
            .map_err(|denied| ApiError::denied(denied, ResourceKind::Trail))?;
        let store = &**self.door().store();
        let end = match store.load_head(&AuditTrail::stream(&who.tenant)).await {
            Ok(head) => head.next_seq,
            Err(StoreError::Missing) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let to = before.unwrap_or(end).min(end);
        let from = to.saturating_sub(limit);
        let size = usize::try_from(to - from).unwrap_or(usize::MAX);
        let mut events = trail::read(store, &who.tenant, from, size).await?;
        events.reverse();
        Ok(events)
    }

    /// The public key that verifies checkpoints of this instance; `None` without a key.
    pub fn audit_key(&self) -> Option<crate::access::signing::PublicKey> {
        let signer =
            crate::access::signing::Signer::from_keyring(&*self.engine.inner.ports.keyring);
        match signer {
            Ok(signer) => Some(signer.public_key()),
            Err(error) => {
                tracing::warn!(%error, "the audit trail cannot be signed");
                None
            }
        }
    }
}
