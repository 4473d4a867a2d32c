//! Deleting documents.

use kernel::audit::{AuditAction, Subject};
use kernel::ids::MessageId;
use store::StoreError;

use super::super::{Api, ApiError};
use super::permit;
use crate::access::{Action, Principal, trail};

impl Api {
    /// Erases a run with all its saves, and frees its id. An unknown id is not an error.
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
        // A purge leaves no batch to report it, so it is recorded first: under a message id of its
        // own, once however often it is tried.
        let message = MessageId::new(format!("{stream}.deleted"));
        let on = Subject {
            workspace: who.workspace.clone(),
            ..Subject::new("document", id)
        };
        let done = (AuditAction::DocumentDeleted, on);
        let store = self.door().store();
        trail::record_done(&**store, who, done, message, request_id).await?;
        self.door().hints().audit(false);
        match store.purge(&stream, "deleted").await {
            Ok(_) | Err(StoreError::Missing) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
