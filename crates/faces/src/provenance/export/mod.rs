//! Snapshots in other formats: W3C PROV and OpenLineage. Paths and hashes only, never the text of a
//! prompt or a response.

pub mod openlineage;
pub mod prov;

#[cfg(test)]
mod tests;

use kernel::time::Timestamp;

use super::document::Snapshot;

/// When an execution began and ended; the end follows the beginning.
fn span(snapshot: &Snapshot) -> (Timestamp, Timestamp) {
    let ended = snapshot.captured().unwrap_or_default();
    let said = snapshot
        .extensions
        .as_ref()
        .and_then(|more| more.started_at.as_deref());
    let took = snapshot
        .metrics
        .as_ref()
        .and_then(|metrics| metrics.duration_ms)
        .unwrap_or(0);
    let took = i64::try_from(took).unwrap_or(i64::MAX);
    let started = said
        .and_then(Timestamp::parse)
        .unwrap_or(Timestamp(ended.0.saturating_sub(took)));
    let started = started.min(ended);
    if started == ended {
        (started, ended.plus_ms(1))
    } else {
        (started, ended)
    }
}
