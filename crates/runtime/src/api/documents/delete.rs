//! Deleting documents.

use store::StoreError;

use super::super::{Api, ApiError};
use super::permit;
use crate::access::{Action, Principal};

impl Api {
    /// Erases a run with everything that was ever saved of it, and makes its id free again. One
    /// that is not there is no error.
    ///
    /// # Errors
    /// A missing scope, or the store's.
    pub async fn delete_document(&self, who: &Principal, id: &str) -> Result<(), ApiError> {
        let owner = permit(who, Action::CancelRun)?;
        let slot = self.documents.slot(&owner, id);
        let mut known = slot.lock().await;
        *known = None;
        let Some(stream) = self.door().document_stream(&owner, id).await? else {
            return Ok(());
        };
        match self.door().store().purge(&stream, "deleted").await {
            Ok(_) | Err(StoreError::Missing) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
