//! Questions of runs: reading and answering them, by name or by token.

use std::time::Duration;

use kernel::control::answer::{is_governed, needs_authentication};
use kernel::coordinator::awaited_queue;
use kernel::definition::NodeIx;
use kernel::ids::{InterruptId, StreamId};
use kernel::limits::MAX_NAME_BYTES;
use kernel::run::state::{Closed, OpenInterrupt};
use kernel::run::{
    Capacity, Command, End, Envelope, InterruptKind, Phase, Rejection, Run, RunStatus,
};
use kernel::time::Timestamp;
use serde_json::Value;
use store::StoreError;

use super::interrupt_token::{self, Claim, InterruptToken, Refused, TokenScope};
use super::{Api, ApiError, ResourceKind};
use crate::access::{Action, Principal, Resource, Scope, authorise, trail};
use crate::door::DoorError;
use crate::keyring::Keyring;
use crate::redact::Redactor;

/// Tokens in snapshots expire at multiples of this, so that two reads of a waiting run are
/// byte-equal.
const WINDOW_MS: i64 = 15 * 60_000;
/// The default life of a token.
pub(super) const LIFE: Duration = Duration::from_secs(30 * 60);
/// The longest life of a token.
const MAX_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);

/// An open question, and a caller who may inspect and perhaps answer it.
#[derive(Clone, Debug)]
pub struct Question {
    run: Run,
    open: OpenInterrupt,
    by: String,
    capacity: Capacity,
    speech: Speech,
}

/// On whose behalf a caller may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speech {
    /// Itself and any person it names.
    Anybody,
    /// Itself.
    Themselves,
    /// The subject of its token.
    Subject,
}

impl Question {
    /// The question.
    pub fn open(&self) -> &OpenInterrupt {
        &self.open
    }

    /// The run of the question.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The node of the question.
    pub fn node(&self) -> &str {
        self.run.plan.node(NodeIx(self.open.node)).id.as_str()
    }
}

/// A token to make.
#[derive(Clone, Debug)]
pub struct TokenOrder {
    /// The operation it allows.
    pub intent: TokenScope,
    /// The person in whose name it answers; the caller if `None`.
    pub subject: Option<String>,
    /// Its life, at most a week and never longer than the question is open.
    pub life: Option<Duration>,
}

/// A token and its expiry.
#[derive(Clone, Debug)]
pub struct ShownToken {
    /// The question.
    pub interrupt: InterruptId,
    /// The token.
    pub token: InterruptToken,
    /// When it expires.
    pub expires_at: Timestamp,
}

impl Api {
    /// The open question of a node, for a caller who may answer questions of the run.
    ///
    /// # Errors
    /// `NotFound` for a run or question that does not exist or is not visible to the caller; the
    /// end of the node's last question if none is open: answered, expired, or ended with its run.
    pub async fn question(
        &self,
        who: &Principal,
        run: &StreamId,
        node: &str,
    ) -> Result<Question, ApiError> {
        let header = self.head(who, Action::AnswerRun, run).await?.header;
        let resource = Resource::run(&header.owner, &header.stream);
        let may_delegate = authorise(who, Action::AnswerForOthers, &resource).is_ok();
        let run = self.door().load(run).await?;
        let open = asked_by(&run, node)?.clone();
        self.in_time(&run, &open)?;
        let mut capacity = who.capacity();
        // A question may require a scope of its answerer.
        if let Some(word) = open.data.get("requiredScope").and_then(Value::as_str)
            && who.scopes.has_word(word)
        {
            capacity.scopes.insert(word.to_owned());
        }
        Ok(Question {
            run,
            open,
            by: who.id.clone(),
            capacity,
            speech: if may_delegate {
                Speech::Anybody
            } else {
                Speech::Themselves
            },
        })
    }

    /// The question of a token, to answer it.
    ///
    /// # Errors
    /// `NotFound` for an invalid token; `TokenExpired`, `InspectOnly`; the end of the question if
    /// it is not open.
    pub async fn question_of(&self, token: &str) -> Result<Question, ApiError> {
        let claim = self.claim(token)?;
        if claim.intent != TokenScope::Resolve {
            return Err(ApiError::InspectOnly);
        }
        let question = self.claimed(claim).await?;
        let node = question.run.plan.node(NodeIx(question.open.node));
        if needs_authentication(node) {
            Err(Rejection::AuthRequired.into())
        } else {
            Ok(question)
        }
    }

    /// The question of a token, to inspect it.
    ///
    /// # Errors
    /// As [`Api::question_of`].
    pub async fn look(&self, token: &str) -> Result<Question, ApiError> {
        self.claimed(self.claim(token)?).await
    }

    /// Answers a question and returns the run's status afterwards. The first answer that ends the
    /// question counts; a repeated vote is not counted again.
    ///
    /// # Errors
    /// The rejection of an invalid answer; `AwaitsWorker` if the node waits for a worker; the end
    /// of the question if it closed meanwhile.
    pub async fn answer(
        &self,
        question: Question,
        mut value: Value,
    ) -> Result<RunStatus, ApiError> {
        open_to_people(&question.open)?;
        // Credentials come by reference. One that comes by value is redacted before the log.
        Redactor::default().value(&mut value);
        let mut capacity = question.capacity;
        let node = question.run.plan.node(NodeIx(question.open.node));
        match speaks_for(&value, &question.by)? {
            // A governed gate rejects callers who answer on behalf of others, and records the
            // attempt.
            Some(other) if question.speech == Speech::Anybody || is_governed(node) => {
                capacity.speaks_for = Some(other);
            }
            // In other kinds of question these names are ordinary data.
            Some(_) if question.open.kind != InterruptKind::Approval => {}
            Some(_) if question.speech == Speech::Subject => return Err(ApiError::NotTheSubject),
            Some(_) => {
                let needs = Scope::ApprovalsDelegate;
                return Err(ApiError::Scope { needs });
            }
            None => {}
        }
        let run = &question.run.header.stream;
        let command = Command::Resolve {
            interrupt: question.open.id.clone(),
            value: value.clone(),
            by: Some(question.by.clone()),
            capacity,
        };
        let by = question.by;
        match self.engine.command(run, Envelope::from(command)).await {
            // A repeated vote changes nothing and is not an error.
            Ok(()) | Err(DoorError::Rejected(Rejection::Duplicate)) => {}
            Err(DoorError::Rejected(Rejection::NotAnApprover)) => {
                self.tell_of_denial(&question.run, &question.open, &by)
                    .await;
                return Err(Rejection::NotAnApprover.into());
            }
            Err(DoorError::Rejected(Rejection::InterruptAnswered)) => {
                // Perhaps the same event was sent twice concurrently.
                let now = self.door().load(run).await?;
                let node = NodeIx(question.open.node);
                return match self.taken(now, node, &question.open.id).await? {
                    Some(taken) => taken.again(&value),
                    None => Err(Rejection::InterruptAnswered.into()),
                };
            }
            Err(DoorError::Rejected(
                rejection @ (Rejection::Settled { .. }
                | Rejection::Stopping
                | Rejection::InterruptGone),
            )) => {
                let now = self.door().load(run).await?;
                let closed = now
                    .facts()
                    .and_then(|facts| facts.closed_interrupts.get(&question.open.id));
                let by_token = question.speech == Speech::Subject;
                return Err(match closed {
                    Some(closed) if by_token => to_a_bearer(no_longer(&now, *closed)),
                    Some(closed) => no_longer(&now, *closed),
                    None => rejection.into(),
                });
            }
            Err(error) => return Err(error.into()),
        }
        Ok(self.door().load(run).await?.status())
    }

    /// Denials at a governed gate go to the audit trail.
    async fn tell_of_denial(&self, run: &Run, open: &OpenInterrupt, by: &str) {
        if !is_governed(run.plan.node(NodeIx(open.node))) {
            return;
        }
        let mut needs = ["/requiredRole", "/requiredScope"].iter();
        let needs = needs.find_map(|place| open.data.pointer(place)?.as_str());
        let store = self.door().store();
        let told =
            trail::record_not_an_approver(&**store, &run.header, by, needs.unwrap_or_default());
        if let Err(error) = told.await {
            tracing::warn!(%error, "a denial was not written to the audit trail");
        }
        self.door().hints().audit(false);
    }

    /// Makes a token for a question.
    ///
    /// # Errors
    /// `AuthRequired` for a question that cannot be answered by token; `AwaitsWorker` if the node
    /// waits for a worker; `Scope` if the caller names another person and may not answer on behalf
    /// of others.
    pub fn issue_token(
        &self,
        question: &Question,
        order: TokenOrder,
    ) -> Result<ShownToken, ApiError> {
        open_to_people(&question.open)?;
        let node = question.run.plan.node(NodeIx(question.open.node));
        if order.intent == TokenScope::Resolve && needs_authentication(node) {
            return Err(Rejection::AuthRequired.into());
        }
        let subject = match order.subject {
            Some(subject) if subject != question.by && question.speech != Speech::Anybody => {
                let needs = Scope::ApprovalsDelegate;
                return Err(ApiError::Scope { needs });
            }
            Some(subject) => subject,
            None => question.by.clone(),
        };
        // Groups and roles are those of the token's maker; those of another person are unknown.
        let capacity = if subject == question.by {
            question.capacity.for_question(&question.open.data)
        } else {
            Capacity::default()
        };
        let longest = if capacity.groups.is_empty() && capacity.roles.is_empty() {
            MAX_LIFE
        } else {
            // Memberships may end without the token's knowledge: its life is short.
            LIFE
        };
        let now = self.door().store().now();
        let expires_at = now.plus(order.life.unwrap_or(LIFE).min(longest));
        self.sign(
            &question.run,
            &question.open,
            order.intent,
            (subject, capacity),
            expires_at,
        )
    }

    /// Tokens for the open questions of a run, as its snapshot shows them to a caller who may
    /// answer them. Questions that cannot be answered by token have none.
    ///
    /// # Errors
    /// The keyring's, as an unavailable store.
    pub fn shown_tokens(&self, who: &Principal, run: &Run) -> Result<Vec<ShownToken>, ApiError> {
        let resource = Resource::run(&run.header.owner, &run.header.stream);
        let open = run.facts().map(|facts| facts.interrupts.as_slice());
        if authorise(who, Action::AnswerRun, &resource).is_err() || run.is_replay() {
            return Ok(Vec::new());
        }
        let may = |open: &&OpenInterrupt| {
            let node = run.plan.node(NodeIx(open.node));
            let answerable = !needs_authentication(node) && open_to_people(open).is_ok();
            answerable && self.in_time(run, open).is_ok()
        };
        let expires_at = Timestamp((self.token_window() + 2).saturating_mul(WINDOW_MS));
        open.unwrap_or_default()
            .iter()
            .filter(may)
            .map(|open| {
                let subject = (who.id.clone(), who.capacity().for_question(&open.data));
                self.sign(run, open, TokenScope::Resolve, subject, expires_at)
            })
            .collect()
    }

    /// A number that changes whenever the tokens of [`Api::shown_tokens`] change.
    pub fn token_window(&self) -> i64 {
        self.door().store().now().0.div_euclid(WINDOW_MS)
    }

    /// Rejects a question whose deadline has passed, even if the log does not record the expiry
    /// yet.
    fn in_time(&self, run: &Run, open: &OpenInterrupt) -> Result<(), ApiError> {
        if run.is_past_deadline(open, self.door().store().now()) {
            Err(Rejection::InterruptExpired.into())
        } else {
            Ok(())
        }
    }

    fn sign(
        &self,
        run: &Run,
        open: &OpenInterrupt,
        intent: TokenScope,
        subject: (String, Capacity),
        expires_at: Timestamp,
    ) -> Result<ShownToken, ApiError> {
        let keyring = &*self.engine.inner.ports.keyring;
        Ok(sign(keyring, (run, open), intent, subject, expires_at)?)
    }

    pub(super) fn claim(&self, token: &str) -> Result<Claim, ApiError> {
        let now = self.door().store().now();
        let keyring = &*self.engine.inner.ports.keyring;
        interrupt_token::verify(keyring, token, now).map_err(|refused| match refused {
            Refused::Unknown => ApiError::NotFound(ResourceKind::Interrupt),
            Refused::Expired => ApiError::TokenExpired,
            Refused::Unavailable(what) => StoreError::Unavailable(what).into(),
        })
    }

    async fn claimed(&self, claim: Claim) -> Result<Question, ApiError> {
        let run = match self.door().load(&claim.run_id).await {
            Err(StoreError::Missing) => return Err(ApiError::NotFound(ResourceKind::Interrupt)),
            run => run?,
        };
        let Some(facts) = run.facts() else {
            return Err(ApiError::NotFound(ResourceKind::Interrupt));
        };
        let id = &claim.interrupt_id;
        let found = facts.interrupts.iter().find(|open| open.id == *id);
        let Some(open) = found.cloned() else {
            return Err(match facts.closed_interrupts.get(id) {
                Some(closed) => to_a_bearer(no_longer(&run, *closed)),
                None => ApiError::NotFound(ResourceKind::Interrupt),
            });
        };
        self.in_time(&run, &open)?;
        Ok(Question {
            run,
            open,
            by: claim.subject,
            capacity: Capacity {
                speaks_for: None,
                groups: claim.groups,
                roles: claim.roles,
                issuer: claim.issuer,
                ..Capacity::default()
            },
            speech: Speech::Subject,
        })
    }
}

impl From<Rejection> for ApiError {
    fn from(rejection: Rejection) -> Self {
        Self::from(DoorError::Rejected(rejection))
    }
}

/// Signs a token for a question.
pub(super) fn sign(
    keyring: &dyn Keyring,
    (run, open): (&Run, &OpenInterrupt),
    intent: TokenScope,
    (subject, capacity): (String, Capacity),
    expires_at: Timestamp,
) -> Result<ShownToken, StoreError> {
    let expires_at = open.timeout_at.map_or(expires_at, |at| at.min(expires_at));
    let claim = Claim {
        run_id: run.header.stream.clone(),
        node_id: run.plan.node(NodeIx(open.node)).id.to_string(),
        interrupt_id: open.id.clone(),
        expires_at,
        intent,
        subject,
        issuer: capacity.issuer,
        groups: capacity.groups,
        roles: capacity.roles,
    };
    let token = interrupt_token::sign(keyring, claim);
    let token = token.map_err(|error| StoreError::Unavailable(error.to_string()))?;
    Ok(ShownToken {
        interrupt: open.id.clone(),
        token,
        expires_at,
    })
}

/// Rejects a question that waits for a worker.
pub(super) fn open_to_people(open: &OpenInterrupt) -> Result<(), ApiError> {
    match awaited_queue(&open.data) {
        Some(queue) => Err(ApiError::AwaitsWorker {
            queue: queue.to_owned(),
        }),
        None => Ok(()),
    }
}

/// The oldest open question of a node.
fn asked_by<'a>(run: &'a Run, node: &str) -> Result<&'a OpenInterrupt, ApiError> {
    let none = || ApiError::NotFound(ResourceKind::Interrupt);
    let ix = run.plan.node_ix(node).ok_or_else(none)?;
    let facts = run.facts().ok_or_else(none)?;
    if let Some(open) = facts.interrupts.iter().find(|open| open.node == ix.0) {
        return Ok(open);
    }
    Err(match run.last_question(&run.plan.node(ix).id) {
        Some((_, Some(closed))) => no_longer(run, closed),
        _ => none(),
    })
}

/// The error as shown to a caller who has only a token: it hides who cancelled what.
fn to_a_bearer(error: ApiError) -> ApiError {
    match error {
        ApiError::InterruptCancelled => Rejection::InterruptAnswered.into(),
        error => error,
    }
}

/// Why a question is closed.
fn no_longer(run: &Run, closed: Closed) -> ApiError {
    let is_cascade = |reason: &Option<String>| {
        let told = reason.as_deref();
        run.header.parent.is_some() && matches!(told, Some("parent-cancelled" | "parent-failed"))
    };
    let reason = match (run.end(), run.phase()) {
        (Some(End::Cancelled { reason }), _) => Some(reason),
        (_, Some(Phase::Stopping { ending })) => match ending {
            kernel::run::event::Ending::Cancelled { reason, .. } => Some(reason),
            kernel::run::event::Ending::Failed { .. } => None,
        },
        _ => None,
    };
    match (closed, reason) {
        (Closed::Answered, _) => Rejection::InterruptAnswered.into(),
        (Closed::Expired, _) => Rejection::InterruptExpired.into(),
        (Closed::Withdrawn, Some(reason)) if !is_cascade(reason) => ApiError::InterruptCancelled,
        (Closed::Withdrawn, _) => Rejection::InterruptGone.into(),
    }
}

/// The person on whose behalf an answer is given, if it names another than `by`.
fn speaks_for(value: &Value, by: &str) -> Result<Option<String>, ApiError> {
    let named = |key: &str| value.get(key).and_then(Value::as_str);
    let name = named("voter").or_else(|| named("decidedBy"));
    let Some(name) = name.filter(|name| !name.is_empty() && *name != by) else {
        return Ok(None);
    };
    if name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
        let what = format!(
            "`voter` and `decidedBy` must be names of 1 to {MAX_NAME_BYTES} bytes, without control \
             characters"
        );
        return Err(Rejection::InvalidAnswer { what }.into());
    }
    Ok(Some(name.to_owned()))
}
