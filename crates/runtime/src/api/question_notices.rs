//! Notices of a run's questions, each with a token that answers it.
//!
//! One webhook of the tenant delivers the notices, each to the address that its run names. So a
//! notice has the retries, the dead letters and the signature of a webhook's delivery.

use std::collections::BTreeSet;

use kernel::control::answer::needs_authentication;
use kernel::definition::NodeIx;
use kernel::ids::{InterruptId, WebhookId};
use kernel::registry::{QUESTION_NOTICES, Rejection, WebhookContract, WebhookSpec};
use kernel::run::state::OpenInterrupt;
use kernel::run::{Capacity, Run};
use kernel::stream::QuestionNotices;
use kernel::time::Timestamp;
use store::StoreError;

use super::interrupt_token::TokenScope;
use super::interrupts::{self, LIFE, ShownToken, open_to_people};
use super::webhooks::no_entropy;
use super::{Api, ApiError, ResourceKind};
use crate::access::{Action, Principal, Resource, What, authorise};
use crate::engine::Engine;
use crate::webhooks::Secret;

/// The only event with a notice.
const ASKED: &str = "interrupt.requested";
/// In place of an address: each run has its own.
const ADDRESS: &str = "urn:runwright:question-notices";

impl Api {
    /// Checks the address for notices of a new run, and registers the webhook that delivers them.
    ///
    /// # Errors
    /// The scope for answers is missing, because a notice contains a token that answers; an address
    /// that the guard for webhooks rejects; a limit of the registry.
    pub(super) async fn prepare_notices(
        &self,
        who: &Principal,
        notices: &QuestionNotices,
        request_id: Option<&str>,
    ) -> Result<(), ApiError> {
        authorise(who, Action::AnswerRun, &Resource::own(who, What::Runs))
            .map_err(|denied| ApiError::denied(denied, ResourceKind::Run))?;
        let checked = self.webhooks.check(&notices.url).await;
        checked.map_err(ApiError::NoticeAddress)?;
        let id = WebhookId::new(QUESTION_NOTICES);
        if self
            .door()
            .workflows(&who.tenant)
            .await?
            .webhook(&id)
            .is_some()
        {
            return Ok(());
        }
        let spec = WebhookSpec {
            url: ADDRESS.to_owned(),
            events: BTreeSet::from([ASKED.to_owned()]),
            tags: BTreeSet::new(),
            workspace: None,
            standard: true,
            contract: WebhookContract::default(),
        };
        let secret = Secret::draw_standard().map_err(no_entropy)?;
        let draw = || Ok(id.clone());
        match self.put_webhook(who, spec, &secret, draw, request_id).await {
            Ok(_) | Err(ApiError::Registry(Rejection::WebhookExists)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The question with an id, if a person can still answer it.
pub(crate) fn open_question<'a>(
    run: &'a Run,
    id: &InterruptId,
    now: Timestamp,
) -> Option<&'a OpenInterrupt> {
    let open = run.facts()?.interrupts.iter().find(|open| open.id == *id)?;
    let is_answerable = open_to_people(open).is_ok() && !run.is_past_deadline(open, now);
    is_answerable.then_some(open)
}

/// A token that answers a question in the name of the run's owner. `None` if the answer needs
/// another credential.
pub(crate) fn owner_token(
    engine: &Engine,
    run: &Run,
    open: &OpenInterrupt,
    now: Timestamp,
) -> Result<Option<ShownToken>, StoreError> {
    let owner = &run.header.owner;
    let Some(subject) = owner.principal.clone() else {
        return Ok(None);
    };
    if needs_authentication(run.plan.node(NodeIx(open.node))) {
        return Ok(None);
    }
    let capacity = Capacity {
        issuer: owner.issuer.clone(),
        ..Capacity::default()
    };
    let keyring = &*engine.inner.ports.keyring;
    let intent = TokenScope::Resolve;
    interrupts::sign(
        keyring,
        (run, open),
        intent,
        (subject, capacity),
        now.plus(LIFE),
    )
    .map(Some)
}
