//! Pausing, resuming, signalling and erasing runs.

use kernel::coordinator::awaited_queue;
use kernel::ids::StreamId;
use kernel::run::event::DrainPolicy;
use kernel::run::{Command, Envelope, InterruptKind, Phase, Rejection, RunStatus};
use kernel::time::Timestamp;
use serde_json::Value;
use store::StoreError;

use super::error::ResourceKind;
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

    /// Sends a signal to the node of a run that waits for this event. The same name and id count
    /// once. Returns the run's status.
    ///
    /// # Errors
    /// As [`Api::pause_run`]; `NotNow` for a run that has ended or is being stopped; `NotFound` if
    /// no node waits for this event. A signal has neither a person nor a fence, so it answers no
    /// question of people and no task of a worker.
    pub async fn signal_run(
        &self,
        who: &Principal,
        run: &StreamId,
        (name, id): (String, String),
        mut payload: Value,
    ) -> Result<RunStatus, ApiError> {
        self.head(who, Action::ControlRun, run).await?;
        // It is not kept for later: a later question of people may have its name.
        let state = self.door().load(run).await?;
        let open = state.facts().into_iter().flat_map(|it| &it.interrupts);
        let (events, others): (Vec<_>, Vec<_>) =
            open.filter(|open| open.key == name).partition(|open| {
                open.kind == InterruptKind::ExternalEvent && awaited_queue(&open.data).is_none()
            });
        if !state.is_settled() && (events.is_empty() || !others.is_empty()) {
            return Err(ApiError::NotFound(ResourceKind::Interrupt));
        }
        Redactor::default().value(&mut payload);
        let signal = Command::Signal { name, id, payload };
        self.control(run, signal).await?;
        Ok(self.door().load(run).await?.status())
    }

    /// Erases a run that has ended and the runs it started, for good.
    ///
    /// # Errors
    /// As [`Api::pause_run`]. `Active` is the answer for a run that has not ended, or of which a
    /// child or its parent has not.
    pub async fn purge_run(
        &self,
        who: &Principal,
        run: &StreamId,
        (reason, request_id): (&str, Option<&str>),
    ) -> Result<Expired, ApiError> {
        let head = self.head(who, Action::CancelRun, run).await?;
        if let Some(parent) = &head.index.parent {
            // Erasing a child erases the message of its end, which its parent may wait for.
            match self.door().store().load_head(parent).await {
                Ok(parent) if !parent.index.settled => return Ok(Expired::Active),
                Ok(_) | Err(StoreError::Missing) => {}
                Err(error) => return Err(error.into()),
            }
        }
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
