//! One delivery: what is sent, to which address, and its result.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use kernel::delivery::{BREAKER_FAILURES, Item, Outcome, Sent};
use kernel::ids::{Seq, StreamId, WebhookId};
use kernel::registry::Webhook;
use kernel::stream::{ForkMode, StreamHeader};
use kernel::time::Timestamp;
use parking_lot::Mutex;
use store::StoreError;
use url::Url;

use super::notice::Notice;
use super::router::UNREADABLE;
use super::sign::{self, Signers};
use super::{MAX_BODY_BYTES, Render, post};
use crate::engine::Engine;
use crate::outbound::Outbound;
use crate::tail::Tail;
use crate::trace_context;

/// Runs whose tags and workspace are cached.
const REMEMBERED: usize = 4_096;
/// Why an event of a damaged log is given up.
const DAMAGED: &str = "the run cannot be read; `runwright verify` names the damage";

/// The resources of a webhook's deliveries.
pub(super) struct Shared {
    pub(super) engine: Engine,
    pub(super) outbound: Outbound,
    pub(super) render: Arc<dyn Render>,
    /// The first event of a run that the webhook wants; `None` if it wants none.
    pub(super) wanted: Mutex<HashMap<StreamId, Option<Seq>>>,
}

/// The webhook during the delivery of a chunk.
pub(super) struct Target {
    pub(super) id: WebhookId,
    pub(super) webhook: Arc<Webhook>,
    pub(super) url: Url,
    pub(super) signers: Signers,
    pub(super) now: Timestamp,
}

impl Shared {
    /// Delivers events of one run in order. After a failure the rest waits. `left` counts the
    /// failures until the rest is not attempted.
    pub(super) async fn deliver_run(
        &self,
        target: &Target,
        items: Vec<Item>,
        left: &AtomicU32,
        outcomes: &Mutex<Vec<Outcome>>,
    ) -> Result<(), StoreError> {
        let Some(first) = items.first() else {
            return Ok(());
        };
        let Some(from) = self.wants(target, &first.run_id).await? else {
            return Ok(());
        };
        let mut is_blocked = false;
        for item in items.into_iter().filter(|item| item.sequence >= from) {
            let sent = if is_blocked || left.load(Ordering::Acquire) == 0 {
                Sent::Deferred
            } else {
                self.send(target, &item).await?
            };
            match &sent {
                Sent::Delivered => left.store(BREAKER_FAILURES, Ordering::Release),
                Sent::Failed { .. } => {
                    let less = |left: u32| Some(left.saturating_sub(1));
                    let _ = left.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
                    is_blocked = true;
                }
                _ => {}
            }
            outcomes.lock().push(Outcome { item, sent });
        }
        Ok(())
    }

    /// Attempts a delivery. A damaged run does not stop those of others.
    async fn send(&self, target: &Target, item: &Item) -> Result<Sent, StoreError> {
        let damaged = || Sent::Impossible {
            why: DAMAGED.into(),
        };
        if item.event_type == UNREADABLE {
            return Ok(damaged());
        }
        let sent = self.try_send(target, item).await;
        Ok(StoreError::unless_damaged(sent)?.unwrap_or_else(damaged))
    }

    async fn try_send(&self, target: &Target, item: &Item) -> Result<Sent, StoreError> {
        let door = self.engine.door();
        let (tail, event, cause) = match Tail::event(door, &item.run_id, item.sequence).await {
            Ok(found) => found,
            Err(StoreError::Missing) => {
                let why = "the run was erased".to_owned();
                return Ok(Sent::Impossible { why });
            }
            Err(error) => return Err(error),
        };
        let header = tail.header();
        let notice = if target.webhook.is_for_notices() {
            match Notice::new(&self.engine, header, &event).await? {
                Some(notice) => Some(notice),
                // The question is settled: there is nothing to deliver.
                None => return Ok(Sent::Delivered),
            }
        } else {
            None
        };
        let (url, contract) = match &notice {
            Some(notice) => (&notice.url, notice.contract),
            None => (&target.url, target.webhook.spec.contract),
        };
        let token = notice.as_ref().and_then(|notice| notice.token.as_ref());
        let plan = tail.plan();
        let body = self
            .render
            .body(contract, header, plan, &event, cause, token);
        if body.len() > MAX_BODY_BYTES {
            let why = "the event is too large for a delivery; read it from the run's events";
            return Ok(Sent::Impossible { why: why.into() });
        }
        let names = self
            .render
            .names(contract, header, &target.id, &item.event_type);
        let id = sign::message_id(&target.id, item);
        let mut headers = target.signers.headers(&names, &id, &body, target.now);
        let trace = header.span_context();
        trace_context::say(&trace, &mut headers);
        let sent = post::deliver(&self.outbound, url, headers, body.into()).await;
        Ok(match sent {
            Ok(()) => Sent::Delivered,
            Err(why) => {
                let (webhook, run) = (&target.id, &item.run_id);
                tracing::debug!(%webhook, %run, seq = item.sequence, %why, "a delivery failed");
                Sent::Failed { why }
            }
        })
    }

    /// The first event of a run that the webhook wants, if the run has the workspace and the tags
    /// that the webhook asks for.
    async fn wants(&self, target: &Target, run: &StreamId) -> Result<Option<Seq>, StoreError> {
        if let Some(known) = self.wanted.lock().get(run) {
            return Ok(*known);
        }
        let head = self.engine.door().store();
        let loaded = match head.load_head(run).await {
            Ok(loaded) => loaded,
            // The reader of the event handles a missing or damaged run.
            Err(StoreError::Missing | StoreError::Corrupt(_)) => return Ok(Some(0)),
            Err(error) => return Err(error),
        };
        let workspace = loaded.header.owner.workspace.as_deref();
        let is_wanted = if target.webhook.is_for_notices() {
            loaded.header.policy.question_notices.is_some()
        } else {
            target.webhook.wants_run(workspace, &loaded.index.tags)
        };
        let wants = own_from(&loaded.header).filter(|_| is_wanted);
        let mut wanted = self.wanted.lock();
        if wanted.len() >= REMEMBERED {
            wanted.clear();
        }
        wanted.insert(run.clone(), wants);
        Ok(wants)
    }
}

/// The first event of a run's own: a branch copies events that its source has delivered, and a
/// replay repeats all of them.
fn own_from(header: &StreamHeader) -> Option<Seq> {
    match &header.origin {
        None => Some(0),
        Some(origin) if origin.mode == ForkMode::Branch => Some(origin.seq),
        Some(_) => None,
    }
}
