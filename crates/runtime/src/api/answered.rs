//! Repeated answers whose first response was lost; and who gives them.

use kernel::run::RunStatus;
use std::collections::BTreeSet;

use kernel::ids::{InterruptId, NodeId, StreamId};
use kernel::run::{Event, Run, RunEvent};
use serde_json::Value;
use store::{ReadFrom, StoreError};

use super::error::ResourceKind;
use super::interrupt_token::TokenScope;
use super::{Api, ApiError};
use crate::access::{Action, Principal, Scopes};
use crate::redact::Redactor;

/// A caller who answers with an interrupt token.
#[derive(Debug)]
pub struct Bearer {
    /// The principal for idempotency keys.
    pub who: Principal,
    /// The question and the subject of the token.
    pub question: String,
}

impl Api {
    /// The holder of a token as idempotency keys distinguish callers: by the tenant and the
    /// workspace of the run. The principal has no scopes.
    ///
    /// # Errors
    /// `NotFound` for an invalid token; `TokenExpired`, `InspectOnly`.
    pub async fn bearer(&self, token: &str) -> Result<Bearer, ApiError> {
        let claim = self.claim(token)?;
        if claim.intent != TokenScope::Resolve {
            return Err(ApiError::InspectOnly);
        }
        let header = match self.door().store().load_head(&claim.run_id).await {
            Err(StoreError::Missing) => return Err(ApiError::NotFound(ResourceKind::Interrupt)),
            loaded => loaded?.header,
        };
        Ok(Bearer {
            // Two subjects of the same question have separate keys.
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

    /// The status of a run if `value` was the last answer to the node, for a caller who may answer
    /// questions of the run. `None` if the answer was another or is missing. Reads the log.
    ///
    /// # Errors
    /// `NotFound` if the run does not exist or is not visible to the caller.
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

    /// The status of the run of a question that was answered with `value`, for the holder of a
    /// token. `None` if the answer was another or is missing. Reads the log.
    ///
    /// # Errors
    /// `NotFound` for an invalid token; `TokenExpired`, `InspectOnly`.
    pub async fn answered_before_by(
        &self,
        token: &str,
        value: &Value,
    ) -> Result<Option<(Run, NodeId)>, ApiError> {
        let claim = self.claim(token)?;
        if claim.intent != TokenScope::Resolve {
            return Err(ApiError::InspectOnly);
        }
        let run = match self.door().load(&claim.run_id).await {
            Err(StoreError::Missing) => return Err(ApiError::NotFound(ResourceKind::Interrupt)),
            run => run?,
        };
        let mut value = value.clone();
        Redactor::default().value(&mut value);
        let given = self.given(&claim.run_id, &claim.interrupt_id).await?;
        Ok((given == Some(value)).then(|| (run, NodeId::new(&claim.node_id))))
    }

    /// The answer that a question received.
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

    /// The data of a question.
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

    /// The result of `tell` for the last event of a run's log that has one.
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
