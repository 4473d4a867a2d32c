//! Events from outside that come more than once.
//!
//! Whoever sends an event cannot always know that it arrived. Where the event has an id, it may be
//! sent again: what it answered before is answered again, and nothing is written.

use kernel::control::answer::{correlate, event_id};
use kernel::definition::NodeIx;
use kernel::ids::{InterruptId, StreamId};
use kernel::run::RunStatus;
use kernel::run::{Rejection, Run};
use serde_json::Value;
use store::StoreError;

use super::error::Thing;
use super::interrupt_token::Intent;
use super::{Api, ApiError};
use crate::access::{Action, Principal};
use crate::redact::Redactor;

/// A question that an event from outside has answered.
#[derive(Clone, Debug)]
pub struct TakenEvent {
    run: Run,
    node: NodeIx,
    event: String,
    /// What was asked: the correlation that an event has to be about.
    asked: Value,
}

impl TakenEvent {
    /// The run that asked.
    pub fn run(&self) -> &StreamId {
        &self.run.header.stream
    }

    /// The node that asked.
    pub fn node(&self) -> &str {
        self.run.plan.node(self.node).id.as_str()
    }

    /// How the run stands, where the same event comes again.
    ///
    /// # Errors
    /// `InterruptAnswered` for another event: one with another id, without one, or about something
    /// else than what was waited for.
    pub fn again(&self, value: &Value) -> Result<RunStatus, ApiError> {
        let mut value = value.clone();
        Redactor::default().value(&mut value);
        let is_named = event_id(&value) == Some(self.event.as_str());
        if is_named && correlate(&self.asked, &value).is_ok() {
            Ok(self.run.status())
        } else {
            Err(Rejection::InterruptAnswered.into())
        }
    }
}

impl Api {
    /// The event that answered a question of a run. Reads the log where there is one.
    pub(super) async fn taken(
        &self,
        run: Run,
        node: NodeIx,
        interrupt: &InterruptId,
    ) -> Result<Option<TakenEvent>, StoreError> {
        let taken = run
            .facts()
            .and_then(|facts| facts.taken_events.get(interrupt));
        let Some(event) = taken.cloned() else {
            return Ok(None);
        };
        let asked = self.asked(&run.header.stream, interrupt).await?;
        Ok(asked.map(|asked| TakenEvent {
            run,
            node,
            event,
            asked,
        }))
    }

    /// The event that answered the last question of a node of a run, for a caller who may answer
    /// questions of the run. `None` where it was answered otherwise.
    ///
    /// # Errors
    /// `NotFound` for a run that is not there or behind a wall.
    pub async fn taken_event(
        &self,
        who: &Principal,
        run: &StreamId,
        node: &str,
    ) -> Result<Option<TakenEvent>, ApiError> {
        let run = self.run_for(who, Action::AnswerRun, run).await?;
        let Some(ix) = run.plan.node_ix(node) else {
            return Ok(None);
        };
        let asked = run.last_question(&run.plan.node(ix).id);
        let asked = asked.map(|(interrupt, _)| interrupt.clone());
        match asked {
            Some(interrupt) => Ok(self.taken(run, ix, &interrupt).await?),
            None => Ok(None),
        }
    }

    /// The event that answered the question a token stands for.
    ///
    /// # Errors
    /// `NotFound` for a token that is none; `TokenExpired`, `InspectOnly`.
    pub async fn taken_event_of(&self, token: &str) -> Result<Option<TakenEvent>, ApiError> {
        let claim = self.claim(token)?;
        if claim.intent != Intent::Resolve {
            return Err(ApiError::InspectOnly);
        }
        let run = match self.door().load(&claim.run_id).await {
            Err(StoreError::Missing) => return Err(ApiError::NotFound(Thing::Interrupt)),
            run => run?,
        };
        match run.plan.node_ix(&claim.node_id) {
            Some(ix) => Ok(self.taken(run, ix, &claim.interrupt_id).await?),
            None => Ok(None),
        }
    }
}
