//! Deleting documents.

use kernel::audit::AuditAction;
use kernel::ids::MessageId;
use store::StoreError;

use super::super::{Api, ApiError};
use super::permit;
use crate::access::{Action, Principal, trail};

impl Api {
    /// Erases a run with everything that was ever saved of it, and makes its id free again. One
    /// that is not there is no error.
    ///
    /// # Errors
    /// A missing scope, or the store's.
    pub async fn delete_document(
        &self,
        who: &Principal,
        id: &str,
        request_id: Option<&str>,
    ) -> Result<(), ApiError> {
        let owner = permit(who, Action::CancelRun)?;
        let slot = self.documents.slot(&owner, id);
        let mut known = slot.lock().await;
        *known = None;
        let Some(stream) = self.door().document_stream(&owner, id).await? else {
            return Ok(());
        };
        // A purge leaves no batch that could tell of it, so it is told first: by a message of its
        // own, kept once however often it is tried.
        let message = MessageId::new(format!("{stream}.deleted"));
        let entry = (AuditAction::DocumentDeleted, "document", id);
        let store = self.door().store();
        trail::record_own(&**store, who, entry, message, request_id).await?;
        self.door().hints().audit(false);
        match store.purge(&stream, "deleted").await {
            Ok(_) | Err(StoreError::Missing) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
