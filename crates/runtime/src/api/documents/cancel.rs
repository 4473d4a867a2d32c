//! Cancelling a run with everything that descends from it.

use kernel::run::RunStatus;
use std::collections::{BTreeSet, VecDeque};

use kernel::document::{DocumentCommand, DocumentRejection};
use kernel::ids::StreamId;
use kernel::stream::Owner;

use super::super::error::ResourceKind;
use super::super::{Api, ApiError};
use super::{DocumentError, DocumentFilter, DocumentSave};
use crate::access::{Action, Principal};

/// The most runs of one cancellation.
const MAX_RUNS: usize = 1_000;

/// The result of a cancellation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cascade {
    /// The runs now cancelled, parents first.
    pub cancelled: Vec<String>,
    /// The unchanged runs, with reasons.
    pub skipped: Vec<(String, DocumentRejection)>,
    /// Whether the limit left runs out.
    pub is_cut: bool,
}

impl Api {
    /// Cancels a run, then its children, and theirs. A run that is not running, or in which a step
    /// is running, is unchanged; its children are still cancelled.
    ///
    /// # Errors
    /// `NotFound` for an unknown run, a missing scope, or the store's.
    pub async fn cancel_documents(
        &self,
        who: &Principal,
        id: &str,
        reason: Option<&str>,
        request_id: Option<&str>,
    ) -> Result<Cascade, ApiError> {
        let owner = super::permit(who, Action::CancelRun)?;
        self.cascade(who, &owner, id, reason, request_id).await
    }

    /// Cancels the run of a document and its descendants, and returns its status. A run that has
    /// ended is unchanged.
    pub(in super::super) async fn cancel_document_run(
        &self,
        who: &Principal,
        run: &StreamId,
        reason: Option<&str>,
        request_id: Option<&str>,
    ) -> Result<RunStatus, ApiError> {
        let document = self.document_for(who, Action::CancelRun, run).await?;
        let head = document
            .head()
            .ok_or(ApiError::NotFound(ResourceKind::Run))?;
        match head.may_cancel() {
            Ok(()) => {}
            Err(DocumentRejection::NotRunning) => return Ok(document.view().status()),
            Err(why) => return Err(why.into()),
        }
        let (owner, id) = (&document.header().owner, head.id());
        let cascade = self.cascade(who, owner, id, reason, request_id).await?;
        match cascade.skipped.iter().find(|(skipped, _)| skipped == id) {
            Some((_, why)) if *why != DocumentRejection::NotRunning => Err((*why).into()),
            _ => Ok(RunStatus::Cancelled),
        }
    }

    async fn cascade(
        &self,
        who: &Principal,
        owner: &Owner,
        id: &str,
        reason: Option<&str>,
        request_id: Option<&str>,
    ) -> Result<Cascade, ApiError> {
        let mut cascade = Cascade::default();
        let mut seen = BTreeSet::from([id.to_owned()]);
        let mut next = VecDeque::from([id.to_owned()]);
        while let Some(run) = next.pop_front() {
            let command = DocumentCommand::Cancel {
                reason: reason.map(str::to_owned),
            };
            let order = DocumentSave {
                id: run.clone(),
                command,
                sent: None,
                request_id: request_id.map(str::to_owned),
            };
            match self.save_for(who, owner.clone(), order).await {
                Ok(_) => cascade.cancelled.push(run.clone()),
                Err(DocumentError::Rejected(DocumentRejection::Unborn)) => {
                    if run == id {
                        return Err(ApiError::NotFound(ResourceKind::Run));
                    }
                }
                Err(DocumentError::Rejected(why)) => cascade.skipped.push((run.clone(), why)),
                Err(DocumentError::NoSuchSave) => {}
                Err(DocumentError::Api(error)) => return Err(error),
            }
            for child in self.children_of(owner, &run).await? {
                if seen.len() >= MAX_RUNS {
                    cascade.is_cut = true;
                    break;
                }
                if seen.insert(child.clone()) {
                    next.push_back(child);
                }
            }
        }
        Ok(cascade)
    }

    async fn children_of(&self, owner: &Owner, id: &str) -> Result<Vec<String>, ApiError> {
        let filter = DocumentFilter {
            parent: Some(id.to_owned()),
            limit: MAX_RUNS,
            ..DocumentFilter::default()
        };
        let page = self.documents_of(owner, filter).await?;
        let ids = page.rows.iter().map(|row| row.index.summary["id"].as_str());
        Ok(ids.flatten().map(str::to_owned).collect())
    }
}
