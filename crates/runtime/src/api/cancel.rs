//! Cancelling runs.

use kernel::ids::StreamId;
use kernel::run::{Command, Envelope, Rejection};

use super::create::status_of;
use super::{Api, ApiError};
use crate::access::{Action, Principal};
use crate::door::DoorError;

impl Api {
    /// Whether the caller may cancel a run that is there.
    ///
    /// # Errors
    /// As [`Api::cancel_run`].
    pub async fn may_cancel(&self, who: &Principal, run: &StreamId) -> Result<(), ApiError> {
        self.head(who, Action::CancelRun, run).await.map(drop)
    }

    /// Cancels a run and answers its status: `cancelling` while what it has running is stopped.
    /// A run that has ended stays as it is, and its status is the answer.
    ///
    /// # Errors
    /// `NotFound` for what is not there or behind a wall.
    pub async fn cancel_run(
        &self,
        who: &Principal,
        run: &StreamId,
        reason: Option<String>,
        request_id: Option<&str>,
    ) -> Result<&'static str, ApiError> {
        self.head(who, Action::CancelRun, run).await?;
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
