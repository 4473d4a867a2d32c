//! Cancelling runs.

use kernel::ids::StreamId;
use kernel::run::RunStatus;
use kernel::run::{Command, Envelope, Rejection};

use super::create::status_of;
use super::{Api, ApiError};
use crate::access::{Action, Principal};
use crate::door::DoorError;
use crate::redact::Redactor;

/// What became of one of several runs that were to be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelledOne {
    /// It is cancelled, or being cancelled: its status.
    Done(RunStatus),
    /// It had ended as something else.
    Ended(RunStatus),
}

impl Api {
    /// Cancels one of several runs, and tells apart those that had ended before.
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

    /// Whether the caller may cancel a run that is there.
    ///
    /// # Errors
    /// As [`Api::cancel_run`].
    pub async fn may_cancel(&self, who: &Principal, run: &StreamId) -> Result<(), ApiError> {
        match self.head(who, Action::CancelRun, run).await {
            Err(ApiError::ReadOnly) => Ok(()),
            head => head.map(drop),
        }
    }

    /// Cancels a run and answers its status: `cancelling` while what it has running is stopped.
    /// A run that has ended stays as it is, and its status is the answer.
    ///
    /// # Errors
    /// `NotFound` for what is not there or behind a wall; `Document` for a run of a browser app
    /// that cannot be cancelled from here.
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
