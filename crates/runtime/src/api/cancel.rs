//! Cancelling runs.

use kernel::ids::StreamId;
use kernel::run::RunStatus;
use kernel::run::{Command, Envelope, Rejection};

use super::create::status_of;
use super::{Api, ApiError};
use crate::access::{Action, Principal};
use crate::door::DoorError;
use crate::redact::Redactor;

/// The result for one of several runs to cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelledOne {
    /// Cancelled or being cancelled: its status.
    Done(RunStatus),
    /// Already ended otherwise: its status.
    Ended(RunStatus),
}

impl Api {
    /// Cancels one of several runs, and distinguishes those that had already ended.
    ///
    /// # Errors
    /// As [`Api::cancel_run`].
    pub async fn cancel_one(
        &self,
        who: &Principal,
        run: &StreamId,
        reason: Option<String>,
        request_id: Option<&str>,
    ) -> Result<CancelledOne, ApiError> {
        let status = self.cancel_run(who, run, reason, request_id).await?;
        Ok(match status {
            RunStatus::Completed | RunStatus::Failed => CancelledOne::Ended(status),
            status => CancelledOne::Done(status),
        })
    }

    /// Cancels a run that has not ended.
    ///
    /// # Errors
    /// As [`Api::cancel_run`]; `Rejected` for a run that has ended.
    pub async fn cancel_active(
        &self,
        who: &Principal,
        run: &StreamId,
        reason: Option<String>,
        request_id: Option<&str>,
    ) -> Result<RunStatus, ApiError> {
        let settled = |status| Err(ApiError::Rejected(Rejection::Settled { status }));
        if let Ok(loaded) = self.head(who, Action::CancelRun, run).await
            && let Some(status) = RunStatus::parse(&loaded.index.status)
            && loaded.index.settled
        {
            return settled(status);
        }
        match self.cancel_run(who, run, reason, request_id).await? {
            // It ended meanwhile.
            status @ (RunStatus::Completed | RunStatus::Failed) => settled(status),
            status => Ok(status),
        }
    }

    /// Checks that the caller may cancel a run that exists.
    ///
    /// # Errors
    /// As [`Api::cancel_run`].
    pub async fn may_cancel(&self, who: &Principal, run: &StreamId) -> Result<(), ApiError> {
        match self.head(who, Action::CancelRun, run).await {
            Err(ApiError::ReadOnly) => Ok(()),
            head => head.map(drop),
        }
    }

    /// Cancels a run and returns its status: `cancelling` while running work is being stopped. A
    /// run that has ended is unchanged, and its status is returned.
    ///
    /// # Errors
    /// `NotFound` if the run does not exist or is not visible to the caller; `Document` for a run
    /// of a browser app that cannot be cancelled from here.
    pub async fn cancel_run(
        &self,
        who: &Principal,
        run: &StreamId,
        reason: Option<String>,
        request_id: Option<&str>,
    ) -> Result<RunStatus, ApiError> {
        let reason = Redactor::reason(reason);
        match self.head(who, Action::CancelRun, run).await {
            Err(ApiError::ReadOnly) => {
                let reason = reason.as_deref();
                return self.cancel_document_run(who, run, reason, request_id).await;
            }
            head => drop(head?),
        }
        let command = Command::Cancel {
            reason,
            by: Some(who.actor(request_id)),
            parent: None,
        };
        match self.engine.command(run, Envelope::from(command)).await {
            Ok(()) | Err(DoorError::Rejected(Rejection::Settled { .. } | Rejection::Stopping)) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(status_of(&self.door().load(run).await?))
    }
}
