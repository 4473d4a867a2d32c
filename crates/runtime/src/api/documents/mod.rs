//! Documents: runs that browser apps record and save whole.
//!
//! The client chooses the id of a run. The id is a unique key within the caller's tenant and
//! workspace: the same id in two of them names two runs, and naming an id never reaches another's
//! run.

mod cache;
mod cancel;
mod delete;
mod follow;
mod list;
mod save;

pub(super) use cache::Cache;
pub use cache::Held;
pub use cancel::Cascade;
pub use follow::{DocumentTail, DocumentViewTail};
pub(super) use list::later;
pub use list::{DocumentFilter, DocumentPage};
pub use save::{DocumentSave, Outcome};

use std::sync::Arc;

use kernel::document::{
    Body, Canonical, Document, DocumentCommand, DocumentRejection, GateDecision, History,
};
use kernel::ids::StreamId;
use kernel::stream::Owner;
use store::StoreError;

use super::error::ResourceKind;
use super::{Api, ApiError};
use crate::access::{Action, Principal, Resource, What, authorise};

/// Why a document could not be read or changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DocumentError {
    /// A rejection by the rules; nothing was written.
    #[error(transparent)]
    Rejected(#[from] DocumentRejection),
    /// The save does not exist.
    #[error("the run has no such revision")]
    NoSuchSave,
    /// Anything else.
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl From<StoreError> for DocumentError {
    fn from(error: StoreError) -> Self {
        Self::Api(error.into())
    }
}

/// Authorises an action in the caller's own tenant and workspace, the only one a client's id can
/// name.
fn permit(who: &Principal, action: Action) -> Result<Owner, ApiError> {
    authorise(who, action, &Resource::own(who, What::Runs))
        .map_err(|denied| ApiError::denied(denied, ResourceKind::Run))?;
    Ok(who.owner())
}

impl Api {
    /// The current document of a run.
    ///
    /// # Errors
    /// `NotFound` if the run does not exist or is not visible to the caller.
    pub async fn document(&self, who: &Principal, id: &str) -> Result<Held, ApiError> {
        let owner = permit(who, Action::ReadRun)?;
        let found = self.held(&owner, id).await?;
        found.ok_or(ApiError::NotFound(ResourceKind::Run))
    }

    /// A run with all of its saves. If the last one is damaged, the run without it: earlier saves
    /// remain readable.
    ///
    /// # Errors
    /// As [`Api::document`].
    pub async fn document_saves(
        &self,
        who: &Principal,
        id: &str,
    ) -> Result<Arc<Document>, ApiError> {
        match self.document(who, id).await {
            Ok(held) => Ok(held.document),
            Err(ApiError::Store(StoreError::Corrupt(_))) => {
                let history = self.saves_of(who, id).await?;
                Ok(Arc::new(history.document().clone()))
            }
            Err(error) => Err(error),
        }
    }

    /// The log of a run's document.
    async fn saves_of(&self, who: &Principal, id: &str) -> Result<History, ApiError> {
        let owner = permit(who, Action::ReadRun)?;
        let stream = self.door().document_stream(&owner, id).await?;
        let stream = stream.ok_or(ApiError::NotFound(ResourceKind::Run))?;
        Ok(self.door().document_history(&stream).await?)
    }

    /// A run's document by the id of its stream, or by its client's id.
    ///
    /// # Errors
    /// As [`Api::document`].
    pub async fn document_view(
        &self,
        who: &Principal,
        run: &StreamId,
    ) -> Result<Arc<Document>, ApiError> {
        self.document_for(who, Action::ReadRun, run).await
    }

    /// Checks that the caller may annotate a run that a browser recorded.
    ///
    /// # Errors
    /// As [`Api::document_view`].
    pub async fn may_annotate_document(
        &self,
        who: &Principal,
        run: &StreamId,
    ) -> Result<(), ApiError> {
        self.document_for(who, Action::AnnotateRun, run)
            .await
            .map(drop)
    }

    /// A run's document, as [`Api::document_view`] finds it, for a caller who may decide one of its
    /// gates.
    ///
    /// # Errors
    /// As [`Api::document_view`].
    pub async fn document_asking(
        &self,
        who: &Principal,
        run: &StreamId,
    ) -> Result<Arc<Document>, ApiError> {
        self.document_for(who, Action::AnswerRun, run).await
    }

    pub(super) async fn document_for(
        &self,
        who: &Principal,
        action: Action,
        run: &StreamId,
    ) -> Result<Arc<Document>, ApiError> {
        let own = permit(who, action)?;
        if let Some(held) = self.held(&own, run.as_str()).await? {
            return Ok(held.document);
        }
        let loaded = match self.door().store().load_head(run).await {
            Ok(loaded) => loaded,
            Err(StoreError::Missing) => return Err(ApiError::NotFound(ResourceKind::Run)),
            Err(error) => return Err(error.into()),
        };
        authorise(who, action, &Resource::run(&loaded.header.owner, run))
            .map_err(|denied| ApiError::denied(denied, ResourceKind::Run))?;
        // The client's id, under which the document may be cached.
        let id = loaded.index.summary["id"].as_str().unwrap_or_default();
        match self.held(&loaded.header.owner, id).await? {
            Some(held) if held.document.header().stream == *run => Ok(held.document),
            _ => Err(ApiError::NotFound(ResourceKind::Run)),
        }
    }

    /// Decides the gate of an open question of a run's step, as the workbench's inbox does.
    ///
    /// # Errors
    /// `NotFound` for an unknown run, or a step without an open question.
    pub async fn answer_document(
        &self,
        who: &Principal,
        run: &StreamId,
        (step, decision): (&str, GateDecision),
        note: Option<String>,
        request_id: Option<&str>,
    ) -> Result<Outcome, DocumentError> {
        let document = self.document_asking(who, run).await?;
        let asked = document.view().questions(step).next();
        let (gate, _) = asked.ok_or(ApiError::NotFound(ResourceKind::Interrupt))?;
        let gate = gate.to_owned();
        let id = document.head().map(|head| head.id().to_owned());
        let order = DocumentSave {
            id: id.unwrap_or_default(),
            command: DocumentCommand::Decide {
                step: step.to_owned(),
                // The note of a checkpoint would be read as the checkpoint's name.
                note: note.filter(|_| gate != "CHECKPOINT"),
                gate,
                decision,
            },
            sent: None,
            request_id: request_id.map(str::to_owned),
        };
        self.save_for(who, document.header().owner.clone(), order)
            .await
    }

    /// A run's document at one of its saves; the last one if `number` is `None`.
    ///
    /// # Errors
    /// `NotFound`, `NoSuchSave`, or the store's.
    pub async fn document_at(
        &self,
        who: &Principal,
        id: &str,
        number: Option<u64>,
    ) -> Result<Arc<Body>, DocumentError> {
        let document = self.document_saves(who, id).await?;
        let last = document.saves().len() as u64;
        let number = number.unwrap_or(last);
        if let Some(head) = document.head().filter(|_| number == last) {
            return Ok(head.clone());
        }
        if number == 0 || number > last {
            return Err(DocumentError::NoSuchSave);
        }
        let history = self.saves_of(who, id).await?;
        Ok(Arc::new(self.door().document_body(&history, number).await?))
    }

    /// The text of a run's document at one of its saves.
    ///
    /// # Errors
    /// `NotFound`, or the store's.
    pub async fn document_text_at(
        &self,
        who: &Principal,
        id: &str,
        number: u64,
    ) -> Result<Canonical, DocumentError> {
        let history = self.saves_of(who, id).await?;
        Ok(self.door().document_text(&history, number).await?)
    }
}
