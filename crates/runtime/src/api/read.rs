//! Reading runs.

use kernel::ids::StreamId;
use kernel::run::Run;
use kernel::stream::{StreamHeader, StreamKind};
use store::{Loaded, StoreError};

use super::error::ResourceKind;
use super::{Api, ApiError};
use crate::access::{Action, Principal, Resource, What, authorise};

/// The version of a run: equal versions mean equal snapshots. Its log's length, and whether it has
/// ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(pub u64, pub bool);

impl Api {
    /// The version of a run, without reading its log.
    ///
    /// # Errors
    /// `NotFound` if the run does not exist or is not visible to the caller, `Erased` if it was
    /// purged.
    pub async fn version(&self, who: &Principal, run: &StreamId) -> Result<Version, ApiError> {
        let loaded = self.head(who, Action::ReadRun, run).await?;
        Ok(Version(loaded.next_seq, loaded.index.settled))
    }

    /// The current state of a run, with the states of children that its log does not record.
    ///
    /// # Errors
    /// As [`Api::version`].
    pub async fn run(&self, who: &Principal, run: &StreamId) -> Result<Run, ApiError> {
        self.head(who, Action::ReadRun, run).await?;
        match self.door().load_to_show(run).await {
            // Erased in between.
            Err(StoreError::Missing) => Err(self.missing(who, Action::ReadRun, run).await),
            read => Ok(read?),
        }
    }

    /// The current state of a run, for an action of the caller.
    pub(super) async fn run_for(
        &self,
        who: &Principal,
        action: Action,
        run: &StreamId,
    ) -> Result<Run, ApiError> {
        match self.door().load(run).await {
            Ok(read) => {
                permit(who, action, &read.header)?;
                Ok(read)
            }
            Err(StoreError::Missing) => Err(self.missing(who, action, run).await),
            Err(error) => Err(error.into()),
        }
    }

    /// The end of a run's log, for an action of the caller.
    pub(super) async fn head(
        &self,
        who: &Principal,
        action: Action,
        run: &StreamId,
    ) -> Result<Loaded, ApiError> {
        match self.door().store().load_head(run).await {
            Ok(loaded) => {
                permit(who, action, &loaded.header)?;
                Ok(loaded)
            }
            Err(StoreError::Missing) => Err(self.missing(who, action, run).await),
            Err(error) => Err(error.into()),
        }
    }

    /// Why a run was not found. The scope is checked first: a caller without it learns nothing
    /// else.
    pub(super) async fn missing(
        &self,
        who: &Principal,
        action: Action,
        run: &StreamId,
    ) -> ApiError {
        if let Err(denied) = authorise(who, action, &Resource::own(who, What::Runs)) {
            return ApiError::denied(denied, ResourceKind::Run);
        }
        // A document's client id is not a stream id.
        match self
            .door()
            .document_stream(&who.owner(), run.as_str())
            .await
        {
            Ok(None) => {}
            Ok(Some(_)) => return ApiError::ReadOnly,
            Err(error) => return error.into(),
        }
        match self.door().store().tombstone(run).await {
            // A tombstone does not name its workspace: only callers for the whole tenant see it.
            Ok(Some(grave)) if grave.tenant == who.tenant && who.workspace.is_none() => {
                ApiError::Erased {
                    grave: Box::new(grave),
                }
            }
            Ok(_) => ApiError::NotFound(ResourceKind::Run),
            Err(error) => error.into(),
        }
    }
}

/// Authorises an action on a run that an engine drives.
pub(super) fn permit(
    who: &Principal,
    action: Action,
    header: &StreamHeader,
) -> Result<(), ApiError> {
    authorise(who, action, &Resource::run(&header.owner, &header.stream))
        .map_err(|denied| ApiError::denied(denied, ResourceKind::Run))?;
    match header.kind {
        StreamKind::Run => Ok(()),
        StreamKind::Document => Err(ApiError::ReadOnly),
        _ => Err(ApiError::NotFound(ResourceKind::Run)),
    }
}
