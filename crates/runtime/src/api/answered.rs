//! Answers that were given, and whose own answer was lost.

use kernel::ids::{InterruptId, StreamId};
use kernel::run::{Event, Run, RunEvent};
use serde_json::Value;
use store::{ReadFrom, StoreError};

use super::{Api, ApiError};
use crate::access::{Action, Principal};
use crate::redact::Redactor;

impl Api {
    /// How a run stands whose node was answered just this last, for a caller who may answer
    /// questions of the run. `None` where it was answered otherwise, or not at all. Reads the log.
    ///
    /// # Errors
    /// `NotFound` for a run that is not there or behind a wall.
    pub async fn answered_before(
        &self,
        who: &Principal,
        run: &StreamId,
        node: &str,
        value: &Value,
    ) -> Result<Option<&'static str>, ApiError> {
        let state = self.run_for(who, Action::AnswerRun, run).await?;
        let Some(interrupt) = last_question(&state, node) else {
            return Ok(None);
        };
        let mut value = value.clone();
        Redactor::default().value(&mut value);
        let given = self.given(run, &interrupt).await?;
        Ok((given == Some(value)).then(|| state.status()))
    }

    /// What a question was answered with.
    async fn given(
        &self,
        run: &StreamId,
        interrupt: &InterruptId,
    ) -> Result<Option<Value>, StoreError> {
        self.told(run, |event| match event {
            RunEvent::InterruptResolved {
                interrupt_id,
                resume_value,
                ..
            } if interrupt_id == *interrupt => Some(resume_value),
            _ => None,
        })
        .await
    }

    /// What a question asked.
    pub(super) async fn asked(
        &self,
        run: &StreamId,
        interrupt: &InterruptId,
    ) -> Result<Option<Value>, StoreError> {
        self.told(run, |event| match event {
            RunEvent::InterruptRequested {
                interrupt_id, data, ..
            } if interrupt_id == *interrupt => Some(data),
            _ => None,
        })
        .await
    }

    /// What the last event of a run's log tells that tells it.
    async fn told(
        &self,
        run: &StreamId,
        tells: impl Fn(RunEvent) -> Option<Value>,
    ) -> Result<Option<Value>, StoreError> {
        let store = self.door().store();
        let log = store.load(run, ReadFrom::Seq(0), usize::MAX).await?;
        Ok(log.records.iter().rev().find_map(|record| {
            let event: Event = serde_json::from_slice(&record.content).ok()?;
            tells(event.body)
        }))
    }
}

fn last_question(run: &Run, node: &str) -> Option<InterruptId> {
    let ix = run.plan.node_ix(node)?;
    let (interrupt, _) = run.last_question(&run.plan.node(ix).id)?;
    Some(interrupt.clone())
}
