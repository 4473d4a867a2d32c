//! Keeping holds alive, and saying when one is lost.

use std::time::Duration;

use store::StoreError;

use crate::engine::Engine;

/// How often is looked, while the engine stops, whether any hold is left.
const LAST_LOOK: Duration = Duration::from_millis(20);

/// Renews every hold of the engine three times per life. A hold that has passed on, or that
/// could not be renewed in time, is lost: its driver stops what it runs before another process
/// may start it.
pub(crate) async fn renew(engine: Engine) {
    let ttl = engine.inner.options.hold_ttl;
    let mut tick = tokio::time::interval(ttl / 3);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let stop = engine.inner.shutdown.stop.clone();
    let drain = engine.inner.shutdown.drain.clone();
    loop {
        let draining = drain.is_cancelled();
        let renews = tokio::select! {
            _ = tick.tick() => true,
            () = stop.cancelled() => return,
            () = drain.cancelled(), if !draining => false,
            () = tokio::time::sleep(LAST_LOOK), if draining => false,
        };
        let holds = engine.holds();
        if holds.is_empty() && drain.is_cancelled() {
            return;
        }
        if holds.is_empty() || !renews {
            continue;
        }
        let store = engine.inner.door.store();
        let (asked, lost): (Vec<_>, Vec<_>) = holds.into_iter().unzip();
        match store.renew(&asked, ttl).await {
            Ok(answers) => {
                for (answer, lost) in answers.into_iter().zip(lost) {
                    match answer {
                        Ok(hold) => engine.renewed(hold),
                        Err(StoreError::Fenced | StoreError::Missing) => lost.cancel(),
                        Err(error) => tracing::warn!(%error, "a hold was not renewed"),
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "holds were not renewed");
                let margin = ttl / 3;
                for (hold, lost) in asked.iter().zip(lost) {
                    if store.now().plus(margin) >= hold.expires_at {
                        lost.cancel();
                    }
                }
            }
        }
    }
}
