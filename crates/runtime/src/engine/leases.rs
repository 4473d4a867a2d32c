//! Renewing leases, and reporting lost ones.

use std::time::Duration;

use store::{Lease, StoreError};

use crate::engine::Engine;

/// The fraction of a lease's life that its driver has to stop its work.
const MARGIN: u32 = 3;

/// Renews every lease of the engine three times per life. A lease that another process claimed, or
/// that could not be renewed in time, is lost: its driver stops its work before another process may
/// start it.
pub(crate) async fn renew(engine: Engine) {
    let ttl = engine.inner.options.lease_ttl;
    let mut tick = tokio::time::interval(ttl / 3);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let stop = engine.inner.shutdown.stop.clone();
    let drain = engine.inner.shutdown.drain.clone();
    loop {
        if drain.is_cancelled() && engine.leases().is_empty() {
            return;
        }
        tokio::select! {
            // Biased, here and at every wait of the runtime, so that a seeded simulation is
            // reproducible.
            biased;
            () = stop.cancelled() => return,
            _ = tick.tick() => {}
            () = drain.cancelled(), if !drain.is_cancelled() => continue,
            () = engine.inner.let_go.notified() => continue,
        }
        let (asked, lost): (Vec<_>, Vec<_>) = engine.leases().into_iter().unzip();
        if asked.is_empty() {
            continue;
        }
        let store = engine.inner.door.store();
        // A later response is as good as none.
        let patience = patience(&asked, ttl, store.now());
        let renewed = tokio::time::timeout(patience, store.renew(&asked, ttl)).await;
        match renewed.unwrap_or_else(|_| Err(StoreError::Unavailable("it is too slow".into()))) {
            Ok(answers) => {
                engine.note_write(Ok(()));
                for (answer, lost) in answers.into_iter().zip(lost) {
                    match answer {
                        Ok(lease) => engine.renewed(lease),
                        Err(StoreError::Fenced | StoreError::Missing) => lost.cancel(),
                        Err(error) => tracing::warn!(%error, "a lease was not renewed"),
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "leases were not renewed");
                engine.note_write::<()>(Err(&error));
                for (lease, lost) in asked.iter().zip(lost) {
                    if store.now().plus(ttl / MARGIN) >= lease.expires_at {
                        lost.cancel();
                    }
                }
            }
        }
    }
}

/// How long a renewal may take: until the first of the leases must be given up.
fn patience(leases: &[Lease], ttl: Duration, now: kernel::time::Timestamp) -> Duration {
    let first = leases.iter().map(|lease| lease.expires_at).min();
    let left = first.map_or(0, |at| at.ms_since(now));
    let until_lost = Duration::from_millis(left).saturating_sub(ttl / MARGIN);
    // A process that was suspended for long may still try.
    until_lost.max(ttl / 6)
}

/// Whether a lease just claimed lives long enough to be renewed in time. The response of a slow
/// store may arrive when most of its life is over.
pub(crate) fn is_fresh(lease: &Lease, ttl: Duration, now: kernel::time::Timestamp) -> bool {
    now.plus(ttl - ttl / MARGIN) <= lease.expires_at
}
