//! The due streams, their order, and when to look again.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use kernel::ids::StreamId;
use kernel::time::Timestamp;

use super::tables::{Stream, Tables};
use crate::types::*;

impl Tables {
    pub(super) fn due(&self, query: &DueQuery, now: Timestamp) -> DueAnswer {
        let mut ready = Vec::new();
        let mut next_at = None;
        for (stream, found) in &self.streams {
            if found.index.queue != query.queue {
                continue;
            }
            match self.kept_back_until(stream, found, now) {
                None => {}
                Some(at) if at <= now => ready.push((stream, found)),
                Some(at) => next_at = Some(next_at.map_or(at, |other: Timestamp| other.min(at))),
            }
        }
        ready.sort_by_key(|(stream, found)| {
            (Reverse(found.index.priority), found.waits_since(), *stream)
        });
        let mut keys = BTreeSet::new();
        let ready = ready.into_iter().filter(|(_, found)| {
            let key = found.index.concurrency_key.as_ref();
            key.is_none_or(|key| keys.insert((found.tenant(), key)))
        });
        let ready = ready.take(query.limit).map(|(stream, found)| Due {
            stream: stream.clone(),
            tenant: found.tenant().clone(),
        });
        DueAnswer {
            ready: ready.collect(),
            next_at,
        }
    }

    /// When a stream becomes due. A time not after now if it is due already, `None` if only an
    /// append can change it.
    fn kept_back_until(
        &self,
        stream: &StreamId,
        found: &Stream,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let waits = if found.index.runnable {
            now
        } else {
            found.first_timer()?
        };
        let held = found.live_lease(now).map(|lease| lease.expires_at);
        let key_held = (found.index.concurrency_key.as_ref())
            .and_then(|key| self.key_held_until(found.tenant(), key, stream, now));
        Some(waits).max(held).max(key_held)
    }
}

impl Stream {
    fn first_timer(&self) -> Option<Timestamp> {
        self.timers.values().min().copied()
    }

    /// Since when a due stream has waited.
    fn waits_since(&self) -> Option<Timestamp> {
        let runnable = self.index.runnable.then_some(self.index.updated_at);
        runnable.into_iter().chain(self.first_timer()).min()
    }
}
