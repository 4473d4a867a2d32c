//! The deliveries of a webhook: their progress, events that wait for another attempt, and dead
//! letters.
//!
//! Each webhook has a log of its own. It has a cursor into the feed of the store, which contains
//! all events in commit order. Every event at or below the cursor was delivered, waits here, or is
//! a dead letter. Events of one run are delivered in their order: while one waits, the later ones
//! wait with it, and other runs continue.
//!
//! Thresholds of the circuit breaker are those of OpenWOP v1 `webhooks.md`, *Circuit breaker*.

mod decide;
mod event;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::batch::IndexRow;
use crate::ids::{Seq, StreamId, TenantId, WebhookId};
use crate::limits;
use crate::log::{Aggregate, Checkpointed, Log};
use crate::stream::{Owner, StreamHeader, StreamKind};
use crate::time::Timestamp;

pub use decide::{Outcome, Sent};
pub use event::{DeliveryEvent, Event, Item};

/// Consecutive failures at which the breaker opens.
pub const BREAKER_FAILURES: u32 = 4;
/// Milliseconds it stays open.
pub const BREAKER_MS: u64 = 3_600_000;
/// Failures within [`FAILED_DAYS`] at which a webhook is given up.
pub const FAILED_FAILURES: u32 = 100;
/// Days over which failures are counted.
pub const FAILED_DAYS: i64 = 7;
const DAY_MS: i64 = 86_400_000;

/// Whether deliveries may be attempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// They may.
    Closed,
    /// One may be attempted, to check whether the receiver has recovered.
    Probe,
    /// None before this time.
    Open(Timestamp),
    /// Never again: too many failed. Registering the address again creates a new webhook.
    Failed,
    /// Never again: the webhook was removed.
    Removed,
}

/// The folded state, as a checkpoint keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// The webhook.
    pub webhook: WebhookId,
    /// Position up to which the feed was read.
    pub cursor: u64,
    /// Events delivered.
    pub delivered: u64,
    /// Failed attempts.
    pub failed: u64,
    /// Events given up.
    pub dropped: u64,
    /// Waiting events by run, in their order.
    pub waiting: BTreeMap<StreamId, Waiting>,
    /// The newest dead letters, oldest first.
    pub dead: VecDeque<DeadLetter>,
    /// Failures since the last success.
    consecutive: u32,
    /// When the breaker opened, or its probe last failed.
    opened_at: Option<Timestamp>,
    /// Failures by day since 1970.
    by_day: BTreeMap<i64, u32>,
    /// Too many attempts failed.
    given_up: bool,
    /// The webhook was removed.
    closed: bool,
}

/// Waiting events of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// The events; the first one is attempted next.
    pub items: VecDeque<Item>,
    /// Number of attempts for the first one.
    pub attempts: u32,
    /// When it is attempted next.
    pub retry_at: Timestamp,
    /// Why the last attempt failed.
    pub why: Option<String>,
}

/// An event that is given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// The event.
    pub item: Item,
    /// Number of attempts.
    pub attempts: u32,
    /// The reason.
    pub why: String,
    /// Since when.
    pub at: Timestamp,
}

/// The deliveries of a webhook.
pub type Deliveries = Log<Facts>;

impl Aggregate for Facts {
    type Event = Event;
    type Body = DeliveryEvent;

    fn at_start() -> Self {
        Self {
            webhook: WebhookId::new(""),
            cursor: 0,
            delivered: 0,
            failed: 0,
            dropped: 0,
            waiting: BTreeMap::new(),
            dead: VecDeque::new(),
            consecutive: 0,
            opened_at: None,
            by_day: BTreeMap::new(),
            given_up: false,
            closed: false,
        }
    }

    fn event(log: &Deliveries, at: Timestamp, body: DeliveryEvent) -> Event {
        Event::next(log, at, body)
    }

    fn place(event: &Event) -> (Seq, Timestamp) {
        (event.seq, event.at)
    }

    fn accepts(log: &Deliveries, event: &Event) -> bool {
        let is_first = matches!(event.body, DeliveryEvent::Opened { .. });
        is_first == (event.seq == 0) && !log.state.closed
    }

    fn fold(&mut self, _: &StreamHeader, event: &Event, _: &[u8]) {
        match &event.body {
            DeliveryEvent::Opened { webhook_id, from } => {
                self.webhook = webhook_id.clone();
                self.cursor = *from;
            }
            DeliveryEvent::Advanced { through, delivered } => {
                self.cursor = *through;
                self.delivered += delivered;
                if *delivered > 0 {
                    self.reached();
                }
            }
            DeliveryEvent::Deferred(item) => self.wait(item, event.at),
            DeliveryEvent::Failed {
                item,
                attempt,
                why,
                retry_at,
            } => {
                self.wait(item, event.at);
                if let Some(waiting) = self.waiting.get_mut(&item.run_id) {
                    waiting.attempts = *attempt;
                    waiting.retry_at = *retry_at;
                    waiting.why = Some(why.clone());
                }
                self.missed(event.at);
            }
            DeliveryEvent::Succeeded(item) => {
                self.go_on(item, event.at);
                self.delivered += 1;
                self.reached();
            }
            DeliveryEvent::Dropped {
                item,
                attempts,
                why,
            } => {
                self.go_on(item, event.at);
                self.dropped += 1;
                if *attempts > 0 {
                    self.missed(event.at);
                }
                self.dead.push_back(DeadLetter {
                    item: item.clone(),
                    attempts: *attempts,
                    why: why.clone(),
                    at: event.at,
                });
                if self.dead.len() > limits::MAX_DEAD_LETTERS {
                    self.dead.pop_front();
                }
            }
            DeliveryEvent::Closed {} => {
                self.closed = true;
                self.waiting.clear();
            }
        }
    }

    fn index(log: &Deliveries) -> IndexRow {
        let facts = &log.state;
        let status = facts.status(Timestamp(i64::MAX));
        let summary = json!({ "delivered": facts.delivered, "dropped": facts.dropped });
        let subject = (facts.webhook.as_str(), status);
        IndexRow {
            settled: facts.closed,
            ..IndexRow::new(&log.header, log.at, subject, summary)
        }
    }
}

impl Checkpointed for Facts {
    const VERSION: u32 = 1;
}

impl Deliveries {
    /// The log of a webhook's deliveries. Derived, because there is one per webhook.
    pub fn stream(tenant: &TenantId, webhook: &WebhookId) -> StreamId {
        StreamId::derived("deliveries", &[tenant.as_str(), webhook.as_str()])
    }

    /// The log of a webhook without deliveries.
    pub fn unborn(
        tenant: &TenantId,
        workspace: Option<&str>,
        webhook: &WebhookId,
        now: Timestamp,
    ) -> Self {
        let mut owner = Owner::tenant(tenant.clone());
        owner.workspace = workspace.map(str::to_owned);
        let stream = Self::stream(tenant, webhook);
        let header = StreamHeader::new(stream, StreamKind::Deliveries, owner, now);
        Self::at_start(header.seal_genesis())
    }

    /// The state of the deliveries.
    pub fn facts(&self) -> &Facts {
        &self.state
    }
}

impl Facts {
    /// Adds a waiting event, unless it is already the first of its run.
    fn wait(&mut self, item: &Item, at: Timestamp) {
        let waiting = self.waiting.entry(item.run_id.clone());
        let waiting = waiting.or_insert_with(|| Waiting {
            items: VecDeque::new(),
            attempts: 0,
            retry_at: at,
            why: None,
        });
        if waiting.items.front() != Some(item) {
            waiting.items.push_back(item.clone());
        }
    }

    /// Removes an event from the waiting ones of its run, if it is the first.
    fn go_on(&mut self, item: &Item, at: Timestamp) {
        let Some(waiting) = self.waiting.get_mut(&item.run_id) else {
            return;
        };
        if waiting.items.front() == Some(item) {
            waiting.items.pop_front();
            waiting.attempts = 0;
            waiting.retry_at = at;
            waiting.why = None;
        }
        if waiting.items.is_empty() {
            self.waiting.remove(&item.run_id);
        }
    }

    fn reached(&mut self) {
        self.consecutive = 0;
        self.opened_at = None;
    }

    fn missed(&mut self, at: Timestamp) {
        self.failed += 1;
        self.consecutive = self.consecutive.saturating_add(1);
        if self.consecutive >= BREAKER_FAILURES {
            self.opened_at = Some(at);
        }
        let today = at.0.div_euclid(DAY_MS);
        *self.by_day.entry(today).or_default() += 1;
        self.by_day.retain(|day, _| *day > today - FAILED_DAYS);
        self.given_up |= self.by_day.values().sum::<u32>() >= FAILED_FAILURES;
    }

    /// Whether deliveries may be attempted at a time.
    pub fn gate(&self, now: Timestamp) -> Gate {
        match self.opened_at {
            _ if self.closed => Gate::Removed,
            _ if self.given_up => Gate::Failed,
            Some(at) if now < at.plus_ms(BREAKER_MS) => Gate::Open(at.plus_ms(BREAKER_MS)),
            Some(_) => Gate::Probe,
            None => Gate::Closed,
        }
    }

    /// The name of the gate, for lists.
    pub fn status(&self, now: Timestamp) -> &'static str {
        match self.gate(now) {
            Gate::Closed | Gate::Probe => "active",
            Gate::Open(_) => "paused",
            Gate::Failed => "failed",
            Gate::Removed => "removed",
        }
    }

    /// Number of further consecutive failures that open the breaker.
    pub fn failures_left(&self) -> u32 {
        BREAKER_FAILURES.saturating_sub(self.consecutive).max(1)
    }

    /// Number of waiting events.
    pub fn waiting_events(&self) -> usize {
        self.waiting.values().map(|run| run.items.len()).sum()
    }

    /// When the next waiting event of one of these runs is due, if there is one.
    pub fn next_retry(&self, of: impl Fn(&StreamId) -> bool) -> Option<Timestamp> {
        let runs = self.waiting.iter().filter(|(run, _)| of(run));
        runs.map(|(_, run)| run.retry_at).min()
    }

    /// The first event of each run that is due, longest due first.
    pub fn due(&self, now: Timestamp) -> Vec<Item> {
        let mut due: Vec<_> = self
            .waiting
            .values()
            .filter(|run| run.retry_at <= now)
            .collect();
        due.sort_by_key(|run| run.retry_at);
        due.iter()
            .filter_map(|run| run.items.front().cloned())
            .collect()
    }
}
