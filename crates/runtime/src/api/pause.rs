//! Pausing, resuming, signalling and erasing runs.

use kernel::ids::StreamId;
use kernel::run::event::DrainPolicy;
use kernel::run::{Command, Envelope, Phase, Rejection, RunStatus};
use kernel::time::Timestamp;
use serde_json::Value;

use super::{Api, ApiError, Expired, NotNow};
use crate::access::{Action, Principal};
use crate::door::DoorError;
use crate::engine::maintenance;
use crate::redact::Redactor;

impl Api {
    /// Checks that the caller may pause or resume a run that exists.
    ///
    /// # Errors
    /// As [`Api::pause_run`].
    pub async fn may_control(&self, who: &Principal, run: &StreamId) -> Result<(), ApiError> {
        self.head(who, Action::ControlRun, run).await.map(drop)
    }

    /// Pauses a run. Returns when it was paused; `None` while it waits for running work to finish,
    /// also if an earlier request already asked for the pause.
    ///
    /// # Errors
    /// `NotFound` if the run does not exist or is not visible to the caller; `NotNow` for a run
    /// that has ended, is being stopped, or is already paused.
    pub async fn pause_run(
        &self,
        who: &Principal,
        run: &StreamId,
        reason: Option<String>,
        policy: DrainPolicy,
    ) -> Result<Option<Timestamp>, ApiError> {
        self.head(who, Action::ControlRun, run).await?;
        let reason = Redactor::reason(reason);
        match self.control(run, Command::Pause { reason, policy }).await {
            Err(ApiError::NotNow(why)) if why.rejection == Rejection::AlreadyDraining => {}
            done => done?,
        }
        Ok(match self.door().load(run).await?.phase() {
            Some(Phase::Paused { at, .. }) => Some(*at),
            _ => None,
        })
    }

    /// Resumes a paused run, or withdraws a pause that has not taken effect. Returns when.
    ///
    /// # Errors
    /// As [`Api::pause_run`]; `NotNow` for a run that is neither paused nor about to be.
    pub async fn resume_run(
        &self,
        who: &Principal,
        run: &StreamId,
        reason: Option<String>,
    ) -> Result<Timestamp, ApiError> {
        self.head(who, Action::ControlRun, run).await?;
        let reason = Redactor::reason(reason);
        self.control(run, Command::Resume { reason }).await?;
        Ok(self.door().store().now())
    }

    /// Sends a signal to a run, which keeps it until a node waits for it. The same name and id count
    /// once. Returns the run's status.
    ///
    /// # Errors
    /// As [`Api::pause_run`]; `NotNow` for a run that has ended or is being stopped.
    pub async fn signal_run(
        &self,
        who: &Principal,
        run: &StreamId,
        (name, id): (String, String),
        mut payload: Value,
    ) -> Result<RunStatus, ApiError> {
        self.head(who, Action::ControlRun, run).await?;
        Redactor::default().value(&mut payload);
        let signal = Command::Signal { name, id, payload };
        self.control(run, signal).await?;
        Ok(self.door().load(run).await?.status())
    }

    /// Erases a run that has ended and the runs it started, for good.
    ///
    /// # Errors
    /// As [`Api::pause_run`]. `Active` is the answer for a run that has not ended, or of which a
    /// child has not.
    pub async fn purge_run(
        &self,
        who: &Principal,
        run: &StreamId,
        (reason, request_id): (&str, Option<&str>),
    ) -> Result<Expired, ApiError> {
        self.head(who, Action::CancelRun, run).await?;
        let by = who.actor(request_id);
        Ok(maintenance::expire(&self.engine, run, &by, reason).await?)
    }

    async fn control(&self, run: &StreamId, command: Command) -> Result<(), ApiError> {
        let rejection = match self.engine.command(run, Envelope::from(command)).await {
            Ok(()) => return Ok(()),
            Err(DoorError::Rejected(rejection)) => rejection,
            Err(error) => return Err(error.into()),
        };
        if matches!(rejection, Rejection::TooLarge { .. }) {
            return Err(ApiError::Rejected(rejection));
        }
        let state = self.door().load(run).await?;
        let paused_at = match state.phase() {
            Some(Phase::Paused { at, .. }) => Some(*at),
            _ => None,
        };
        Err(ApiError::NotNow(Box::new(NotNow {
            rejection,
            status: state.status(),
            paused_at,
        })))
    }
}
