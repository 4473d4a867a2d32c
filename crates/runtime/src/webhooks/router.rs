//! Reads the feed once for all webhooks and offers each event to those that want it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kernel::delivery::Item;
use kernel::ids::{TenantId, WebhookId};
use kernel::registry::Registry;
use kernel::stream::StreamKind;
use kernel::time::Timestamp;
use serde::Deserialize;
use store::{FeedEvent, ListQuery, Position, StoreError};

use super::lane::{Job, Lane};
use super::worker::Worker;
use super::{Render, Webhooks};
use crate::engine::Engine;

/// Events read at a time.
pub(super) const PAGE: usize = 256;
/// Registries listed at a time.
const LIST: usize = 500;
/// The longest delay until another process's first webhook is noticed.
const IDLE: Duration = Duration::from_secs(5);

/// The reader of the feed.
pub(super) struct Router {
    engine: Engine,
    webhooks: Webhooks,
    render: Arc<dyn Render>,
    lanes: BTreeMap<TenantId, BTreeMap<WebhookId, Arc<Lane>>>,
    position: Position,
}

impl Router {
    pub(super) fn new(engine: Engine, webhooks: Webhooks, render: Arc<dyn Render>) -> Self {
        Self {
            engine,
            webhooks,
            render,
            lanes: BTreeMap::new(),
            position: Position::default(),
        }
    }

    /// Routes until the engine drains.
    pub(super) async fn route(mut self) {
        let drain = self.engine.inner.shutdown.drain.clone();
        let mut fed = self.engine.door().hints().follow_feed();
        while !drain.is_cancelled() {
            let is_idle = self.lanes.is_empty();
            let routed = if is_idle {
                self.look_for_webhooks().await
            } else {
                self.page().await
            };
            let wait = match routed {
                Ok(true) => continue,
                Ok(false) if is_idle => IDLE,
                Ok(false) => self.engine.inner.options.poll,
                Err(error) => {
                    tracing::warn!(%error, "events could not be routed to webhooks; trying again");
                    self.engine.inner.options.poll
                }
            };
            tokio::select! {
                biased;
                () = drain.cancelled() => {}
                () = self.webhooks.inner.changed.notified() => {}
                _ = fed.changed(), if !is_idle => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
        for lane in self.lanes.values().flat_map(BTreeMap::values) {
            lane.wake.notify_one();
        }
    }

    /// Reads the webhooks of every registry. Returns whether there are any. Routing begins at the
    /// furthest cursor: each new lane reads earlier events itself.
    async fn look_for_webhooks(&mut self) -> Result<bool, StoreError> {
        let store = self.engine.door().store().clone();
        let mut query = ListQuery {
            kind: Some(StreamKind::Registry),
            limit: LIST,
            ..ListQuery::default()
        };
        loop {
            let rows = store.list(query.clone()).await?;
            for row in &rows {
                let count = row.index.summary["webhooks"].as_u64();
                if count.is_some_and(|count| count > 0) {
                    let furthest = self.sync(&row.tenant).await?;
                    self.position = self.position.max(furthest);
                }
            }
            let Some(last) = rows.last().filter(|_| rows.len() == LIST) else {
                return Ok(!self.lanes.is_empty());
            };
            query.after = Some(store::ListCursor {
                created_at: last.index.created_at,
                stream: last.stream.clone(),
            });
        }
    }

    /// Updates the lanes of a tenant from its registry. Returns the furthest cursor of new ones.
    async fn sync(&mut self, tenant: &TenantId) -> Result<Position, StoreError> {
        let mut furthest = Position::default();
        let door = self.engine.door();
        let Some(registry) = StoreError::unless_damaged(door.workflows(tenant).await)? else {
            tracing::error!(%tenant, "a damaged registry: changes of the tenant's webhooks have no effect");
            return Ok(furthest);
        };
        let lanes = self.lanes.entry(tenant.clone()).or_default();
        lanes.retain(|id, lane| {
            let webhook = registry.webhook(id);
            lane.set(webhook);
            webhook.is_some()
        });
        for webhook in registry.webhooks() {
            if lanes.contains_key(&webhook.id) {
                continue;
            }
            let known = super::load(&**door.store(), tenant, &webhook.id).await;
            let Some(known) = StoreError::unless_damaged(known)? else {
                tracing::error!(webhook = %webhook.id, "a damaged log of deliveries: none are made");
                continue;
            };
            let cursor = known.map_or(0, |deliveries| deliveries.facts().cursor);
            furthest = furthest.max(Position(cursor));
            let lane = Arc::new(Lane::new(tenant.clone(), webhook.clone()));
            let worker = Worker::new(
                self.engine.clone(),
                self.webhooks.outbound().clone(),
                self.render.clone(),
                lane.clone(),
            );
            self.engine.inner.tasks.spawn(worker.work());
            lanes.insert(webhook.id.clone(), lane);
        }
        if lanes.is_empty() {
            self.lanes.remove(tenant);
        }
        Ok(furthest)
    }

    /// Routes a page of the feed. Returns whether there may be more.
    async fn page(&mut self) -> Result<bool, StoreError> {
        let store = self.engine.door().store();
        let page = store.feed(self.position, PAGE).await?;
        for event in &page {
            if Registry::is_stream(&event.stream) {
                self.sync(&event.tenant).await?;
            }
            let lanes = self.lanes.get(&event.tenant);
            for lane in lanes.into_iter().flat_map(BTreeMap::values) {
                if let Some(job) = wanted(lane, event, &*self.render) {
                    lane.offer(job);
                }
            }
        }
        if let Some(last) = page.last() {
            self.position = self.position.max(last.position);
        }
        for lane in self.lanes.values().flat_map(BTreeMap::values) {
            lane.passed(self.position.0);
        }
        Ok(page.len() == PAGE)
    }
}

#[derive(Deserialize)]
struct Peek<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    at: Timestamp,
}

/// The type of an event that cannot be read. It becomes a dead letter of every webhook.
pub(super) const UNREADABLE: &str = "unreadable";

/// The event, if the lane's webhook wants its type and was registered before it.
pub(super) fn wanted(lane: &Lane, event: &FeedEvent, render: &dyn Render) -> Option<Job> {
    let is_of_run = event.tenant == lane.tenant && event.stream.as_str().starts_with("run-");
    let webhook = lane.webhook().filter(|_| is_of_run)?;
    let job = |kind: Cow<'_, str>| Job {
        position: event.position.0,
        item: Item {
            run_id: event.stream.clone(),
            sequence: event.seq,
            event_type: kind.into_owned(),
        },
    };
    let Some(content) = &event.content else {
        return Some(job(UNREADABLE.into()));
    };
    let peek: Peek<'_> = serde_json::from_slice(content).ok()?;
    if peek.at < webhook.created_at {
        return None;
    }
    let kind = render.event_type(peek.kind, content);
    webhook.wants(&kind).then(|| job(kind))
}
