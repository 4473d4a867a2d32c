//! External events that arrive more than once.
//!
//! A sender cannot always know that its event arrived. An event with an id may be sent again: the
//! earlier response is repeated, and nothing is written.

use kernel::control::answer::{correlate, event_id};
use kernel::definition::NodeIx;
use kernel::ids::{InterruptId, StreamId};
use kernel::run::RunStatus;
use kernel::run::{Rejection, Run};
use serde_json::Value;
use store::StoreError;

use super::error::ResourceKind;
use super::interrupt_token::TokenScope;
use super::{Api, ApiError};
use crate::access::{Action, Principal};
use crate::redact::Redactor;

/// A question that an external event has answered.
#[derive(Clone, Debug)]
pub struct TakenEvent {
    run: Run,
    node: NodeIx,
    event: String,
    /// The question's data: the correlation that an event must match.
    asked: Value,
}

impl TakenEvent {
    /// The run of the question.
    pub fn run(&self) -> &StreamId {
        &self.run.header.stream
    }

    /// The node of the question.
    pub fn node(&self) -> &str {
        self.run.plan.node(self.node).id.as_str()
    }

    /// The run's status if the same event comes again.
    ///
    /// # Errors
    /// `InterruptAnswered` for another event: one with another id, without an id, or with another
    /// correlation.
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
    /// The event that answered a question of a run. Reads the log if there is one.
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

    /// The event that answered the last question of a node, for a caller who may answer questions
    /// of the run. `None` if it was answered otherwise.
    ///
    /// # Errors
    /// `NotFound` if the run does not exist or is not visible to the caller.
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

    /// The event that answered the question of a token.
    ///
    /// # Errors
    /// `NotFound` for an invalid token; `TokenExpired`, `InspectOnly`.
    pub async fn taken_event_of(&self, token: &str) -> Result<Option<TakenEvent>, ApiError> {
        let claim = self.claim(token)?;
        if claim.intent != TokenScope::Resolve {
            return Err(ApiError::InspectOnly);
        }
        let run = match self.door().load(&claim.run_id).await {
            Err(StoreError::Missing) => return Err(ApiError::NotFound(ResourceKind::Interrupt)),
            run => run?,
        };
        match run.plan.node_ix(&claim.node_id) {
            Some(ix) => Ok(self.taken(run, ix, &claim.interrupt_id).await?),
            None => Ok(None),
        }
    }
}
