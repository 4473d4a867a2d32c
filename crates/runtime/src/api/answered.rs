//! Answers that were given, and whose own answer was lost; and who gives them.

use kernel::run::RunStatus;
use std::collections::BTreeSet;

use kernel::ids::{InterruptId, NodeId, StreamId};
use kernel::run::{Event, Run, RunEvent};
use serde_json::Value;
use store::{ReadFrom, StoreError};

use super::error::Thing;
use super::interrupt_token::Intent;
use super::{Api, ApiError};
use crate::access::{Action, Principal, Scopes};
use crate::redact::Redactor;

/// Whoever answers with a token.
#[derive(Debug)]
pub struct Bearer {
    /// As whom they are known.
    pub who: Principal,
    /// What they answer, and in whose name.
    pub question: String,
}

impl Api {
    /// Whoever answers with a token, as idempotency keys tell them apart: by the tenant and the
    /// workspace of the run. They may do nothing else.
    ///
    /// # Errors
    /// `NotFound` for a token that is none; `TokenExpired`, `InspectOnly`.
    pub async fn bearer(&self, token: &str) -> Result<Bearer, ApiError> {
        let claim = self.claim(token)?;
        if claim.intent != Intent::Resolve {
            return Err(ApiError::InspectOnly);
        }
        let end = ReadFrom::Seq(u64::MAX);
        let header = match self.door().store().load(&claim.run_id, end, 0).await {
            Err(StoreError::Missing) => return Err(ApiError::NotFound(Thing::Interrupt)),
            loaded => loaded?.header,
        };
        Ok(Bearer {
            // Of two that are asked the same each has keys of their own.
            question: format!("{}/{}/{}", claim.run_id, claim.interrupt_id, claim.subject),
            who: Principal {
                tenant: header.owner.tenant,
                workspace: header.owner.workspace,
                run: None,
                id: claim.subject,
                issuer: None,
                scopes: Scopes::Only(BTreeSet::new()),
                groups: claim.groups,
                roles: claim.roles,
            },
        })
    }

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
    ) -> Result<Option<RunStatus>, ApiError> {
        let state = self.run_for(who, Action::AnswerRun, run).await?;
        let Some(interrupt) = last_question(&state, node) else {
            return Ok(None);
        };
        let mut value = value.clone();
        Redactor::default().value(&mut value);
        let given = self.given(run, &interrupt).await?;
        Ok((given == Some(value)).then(|| state.status()))
    }

    /// How the run of a question stands that was answered with this, for whoever has a token for
    /// it. `None` where it was answered otherwise, or not at all. Reads the log.
    ///
    /// # Errors
    /// `NotFound` for a token that is none; `TokenExpired`, `InspectOnly`.
    pub async fn answered_before_by(
        &self,
        token: &str,
        value: &Value,
    ) -> Result<Option<(Run, NodeId)>, ApiError> {
        let claim = self.claim(token)?;
        if claim.intent != Intent::Resolve {
            return Err(ApiError::InspectOnly);
        }
        let run = match self.door().load(&claim.run_id).await {
            Err(StoreError::Missing) => return Err(ApiError::NotFound(Thing::Interrupt)),
            run => run?,
        };
        let mut value = value.clone();
        Redactor::default().value(&mut value);
        let given = self.given(&claim.run_id, &claim.interrupt_id).await?;
        Ok((given == Some(value)).then(|| (run, NodeId::new(&claim.node_id))))
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
