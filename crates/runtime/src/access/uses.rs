//! Uses of keys, for the audit trail: each key is recorded once an hour, however often it is used.

use std::collections::HashMap;
use std::sync::Arc;

use kernel::audit::{Actor, AuditAction, Entry, Outcome, Subject};
use kernel::ids::{KeyId, MessageId, TenantId};
use kernel::time::Timestamp;
use parking_lot::Mutex;
use store::Store;

use super::trail;

/// The same key is recorded once per this many milliseconds.
const EVERY_MS: i64 = 3_600_000;
/// Keys that are remembered. Uses of others are submitted again; the trail drops duplicates.
const REMEMBERED: usize = 65_536;

/// The hour in which each key was last seen.
#[derive(Clone, Default)]
pub(super) struct Uses(Arc<Mutex<HashMap<KeyId, i64>>>);

impl Uses {
    /// Records that a key was used. The request does not wait for the trail.
    pub(super) fn used(&self, store: &Arc<dyn Store>, tenant: &TenantId, key: &KeyId, by: &str) {
        let now = store.now();
        let hour = now.0.div_euclid(EVERY_MS);
        {
            let mut seen = self.0.lock();
            if seen.get(key) == Some(&hour) {
                return;
            }
            if seen.len() >= REMEMBERED {
                seen.clear();
            }
            seen.insert(key.clone(), hour);
        }
        let entry = entry(key, by, hour, now);
        let (uses, store) = (self.clone(), store.clone());
        let (tenant, key) = (tenant.clone(), key.clone());
        tokio::spawn(async move {
            if let Err(error) = trail::record(&*store, &tenant, entry).await {
                tracing::warn!(%error, "the use of a key is not on the audit trail yet");
                uses.0.lock().remove(&key);
            }
        });
    }
}

fn entry(key: &KeyId, by: &str, hour: i64, now: Timestamp) -> Entry {
    Entry {
        message: MessageId::new(format!("used.{key}.{hour}")),
        decided_at: now,
        action: AuditAction::KeyUsed,
        by: Actor::new(by),
        on: Subject::new("key", key.as_str()),
        outcome: Outcome::Done,
    }
}
