//! The history of attempts whose holder was lost.

use std::collections::HashMap;
use std::sync::Arc;

use kernel::batch::Record;
use kernel::ids::AttemptId;
use kernel::run::state::LiveAttempt;
use kernel::run::{Event, RunEvent};
use store::{ReadFrom, StoreError};

use super::{Driver, Stop};
use crate::ports::{AttemptHistory, Past, PastCall, Repeat};

/// Events read at a time.
const PAGE: usize = 512;

impl Driver {
    /// Reads the history of attempts that another holder began. Returns those that must not be
    /// repeated.
    pub(super) async fn look_back(&mut self) -> Result<Vec<AttemptId>, Stop> {
        let registry = &self.engine.inner.registry;
        let lost = || {
            let live = self.run().live_attempts();
            live.filter(|live| !self.ours.contains(&live.id))
        };
        let remembers = |live: &LiveAttempt<'_>| {
            let node = registry.get(&self.run().plan.node(live.node).type_id);
            node.is_some_and(|node| node.remembers_calls())
        };
        let remember: Vec<AttemptId> = lost().filter(remembers).map(|live| live.id).collect();
        if !remember.is_empty() {
            self.past = self.read_calls(&remember).await?;
        }
        let lost = self.run().live_attempts();
        let lost = lost.filter(|live| !self.ours.contains(&live.id));
        let unrepeatable = lost.filter(|live| !self.may_repeat(live));
        Ok(unrepeatable.map(|live| live.id).collect())
    }

    /// Whether an attempt may be started again: it is repeatable, has left a result, or resumes
    /// from its recorded calls.
    fn may_repeat(&self, live: &LiveAttempt<'_>) -> bool {
        let (run, inner) = (self.run(), &self.engine.inner);
        let node = run.plan.node(live.node);
        if inner.registry.repeat(&node.type_id, &node.config) != Repeat::Once {
            return true;
        }
        let Some(work) = inner.registry.get(&node.type_id) else {
            return false;
        };
        let (stream, key) = (&run.header.stream, live.id.key(&run.header.key_origin()));
        let calls = self.past.get(&live.id);
        let calls = calls.map_or(&[][..], |past| &past.calls);
        work.has_result(&inner.ports, stream, &key)
            || work.goes_on(&Past {
                config: &node.config,
                calls,
                ports: &inner.ports,
                run: stream,
                key: &key,
            })
    }

    /// The tool calls of attempts, and the models' usage for them, from the log.
    async fn read_calls(
        &self,
        attempts: &[AttemptId],
    ) -> Result<HashMap<AttemptId, Arc<AttemptHistory>>, Stop> {
        let mut wait = std::time::Duration::from_millis(10);
        loop {
            match self.calls_of(attempts).await {
                Ok(calls) => return Ok(calls),
                Err(StoreError::Missing) => return Err(Stop::Lost),
                Err(error) => {
                    tracing::warn!(%error, "the log cannot be read");
                    self.pause(&mut wait).await?;
                }
            }
        }
    }

    async fn calls_of(
        &self,
        attempts: &[AttemptId],
    ) -> Result<HashMap<AttemptId, Arc<AttemptHistory>>, StoreError> {
        let store = self.engine.door().store();
        let mut calls: HashMap<AttemptId, AttemptHistory> = HashMap::new();
        let mut next = 0;
        while next < self.run().head.next_seq {
            let from = ReadFrom::Seq(next);
            let page = store.load(&self.lease.stream, from, PAGE).await?;
            if page.records.is_empty() {
                break;
            }
            next += page.records.len() as u64;
            for record in &page.records {
                note(&mut calls, attempts, record)?;
            }
        }
        let calls = calls.into_iter();
        Ok(calls.map(|(id, calls)| (id, Arc::new(calls))).collect())
    }
}

/// Adds a record of a tool or model call of one of the attempts.
fn note(
    calls: &mut HashMap<AttemptId, AttemptHistory>,
    attempts: &[AttemptId],
    record: &Record,
) -> Result<(), StoreError> {
    let event: Event = serde_json::from_slice(&record.content)
        .map_err(|error| StoreError::Corrupt(format!("an event cannot be read: {error}")))?;
    match event.body {
        RunEvent::ToolCalled(called) => {
            let of = AttemptId {
                node: called.node_id.clone(),
                visit: called.visit,
                attempt: called.attempt,
            };
            if attempts.contains(&of) {
                let returned = None;
                calls
                    .entry(of)
                    .or_default()
                    .calls
                    .push(PastCall { called, returned });
            }
        }
        RunEvent::ToolReturned(returned) => {
            let of = AttemptId {
                node: returned.node_id.clone(),
                visit: returned.visit,
                attempt: returned.attempt,
            };
            let of_it = |call: &&mut PastCall| call.called.call_id == returned.call_id;
            let made = calls.get_mut(&of);
            if let Some(call) = made.and_then(|past| past.calls.iter_mut().find(of_it)) {
                call.returned = Some(returned);
            }
        }
        RunEvent::ProviderUsage {
            usage,
            attempt: Some(of),
            ..
        } if attempts.contains(&of) => calls.entry(of).or_default().usage.push(usage),
        _ => {}
    }
    Ok(())
}
