//! Admission: requests by rate (429), new runs by the number in flight (503).

use std::collections::HashMap;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use hyper::StatusCode;
use kernel::ids::{StreamId, TenantId};
use runtime::access::{Action, Principal};
use runtime::telemetry;
use serde_json::{Value, json};

use crate::app::App;
use crate::auth::Gate;
use crate::limits::Limits;
use crate::problem::{Problem, RETRY_AFTER};

/// The shortest retention that the protocol's profile allows.
const LEAST_KEPT: Duration = Duration::from_secs(7 * 24 * 3_600);
/// The shortest retention of effects that OpenWOP 2 allows.
const EFFECTS_KEPT: Duration = Duration::from_secs(14 * 24 * 3_600);
/// The number of buckets above which full ones are dropped.
const MANY: usize = 4_096;

/// Rates of requests, as token buckets. Requests without a principal are not counted: public
/// routes, and rejected credentials.
pub(crate) struct RateLimits {
    principals: Option<Buckets<(TenantId, String, Option<StreamId>)>>,
    tenants: Option<Buckets<TenantId>>,
}

struct Buckets<K: Hash + Eq + Clone> {
    limiter: DefaultKeyedRateLimiter<K>,
    rate: NonZeroU32,
    seen: Mutex<HashMap<K, Seen>>,
}

/// A caller's requests in the current second.
#[derive(Clone, Copy)]
struct Seen {
    since: Instant,
    now: u32,
    before: u32,
}

impl Seen {
    fn none(at: Instant) -> Self {
        Self {
            since: at,
            now: 0,
            before: 0,
        }
    }

    /// Counts a request.
    fn count(&mut self, at: Instant) {
        let seconds = at.saturating_duration_since(self.since).as_secs();
        if seconds > 0 {
            self.before = if seconds == 1 { self.now } else { 0 };
            self.now = 0;
            self.since += Duration::from_secs(seconds);
        }
        self.now = self.now.saturating_add(1);
    }

    /// Requests per second: the larger of the count so far in this second and that of the second
    /// before.
    fn rate(&self) -> u32 {
        self.now.max(self.before)
    }
}

impl RateLimits {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            principals: limits.principal_rate.map(Buckets::new),
            tenants: limits.tenant_rate.map(Buckets::new),
        }
    }

    /// Counts a request, and rejects it above the rate.
    pub(crate) fn check(&self, who: &Principal) -> Result<(), Problem> {
        if let Some(principals) = &self.principals {
            // A token that reads one run must not use up the rate of the key that made it.
            let key = (who.tenant.clone(), who.id.clone(), who.run.clone());
            principals.check(&key, "key")?;
        }
        match &self.tenants {
            Some(tenants) => tenants.check(&who.tenant, "tenant"),
            None => Ok(()),
        }
    }
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    fn new(rate: NonZeroU32) -> Self {
        Self {
            limiter: RateLimiter::keyed(Quota::per_second(rate)),
            rate,
            seen: Mutex::default(),
        }
    }

    /// The rate of requests, including this one.
    fn observe(&self, key: &K) -> u32 {
        let at = Instant::now();
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() > MANY {
            all.retain(|_, seen| at.saturating_duration_since(seen.since) < Duration::from_secs(2));
        }
        let seen = all.entry(key.clone()).or_insert_with(|| Seen::none(at));
        seen.count(at);
        seen.rate()
    }

    fn check(&self, key: &K, scope: &'static str) -> Result<(), Problem> {
        let observed = self.observe(key);
        if self.limiter.len() > MANY {
            self.limiter.retain_recent();
        }
        let Err(not_yet) = self.limiter.check_key(key) else {
            return Ok(());
        };
        let wait = not_yet.wait_time_from(DefaultClock::default().now());
        let ms = wait.max(Duration::from_millis(1)).as_millis();
        let ms = u64::try_from(ms).unwrap_or(u64::MAX);
        Err(Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "rate_limited",
            "too many requests; try again after the time in Retry-After",
        )
        .retry_after(ms.div_ceil(1_000))
        .with("retryAfterMs", ms)
        .with("scope", scope)
        .with("limit", self.rate.get())
        .with("observedRate", observed))
    }
}

/// How often a full server checks whether other processes have ended counted runs.
const RECOUNT: Duration = Duration::from_secs(1);

/// The number of requests creating runs, and the time of the last recount.
#[derive(Default)]
pub(crate) struct RunAdmission {
    creating: Arc<AtomicUsize>,
    recounted: Mutex<Option<Instant>>,
}

/// Reserves capacity for a run until it exists and is counted as in flight.
pub(crate) struct Permit(Arc<AtomicUsize>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl RunAdmission {
    /// A reservation, if there are fewer than `cap` runs.
    fn take(&self, runs: usize, cap: usize) -> Option<Permit> {
        let creating = self.creating.fetch_add(1, Ordering::AcqRel);
        let place = Permit(self.creating.clone());
        (runs.saturating_add(creating) < cap).then_some(place)
    }

    /// Whether it is time for a recount.
    fn is_due(&self) -> bool {
        let mut last = self
            .recounted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| last.elapsed() >= RECOUNT);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

/// Checks the capacity for the effect of an action. The reservation lasts as long as the result is
/// held.
pub(crate) async fn check(app: &App, action: Action) -> Result<Option<Permit>, Problem> {
    let limits = app.limits();
    let Some(cap) = limits.in_flight.filter(|_| action == Action::CreateRun) else {
        return Ok(None);
    };
    let full = || {
        Problem::unavailable("the server has the most runs in flight that it accepts; try again")
    };
    if limits.streams - app.streams().available_permits() >= cap {
        return Err(full());
    }
    let engine = app.api().engine();
    let take = || app.room().take(telemetry::in_flight(engine), cap);
    if let Some(place) = take() {
        return Ok(Some(place));
    }
    if !app.room().is_due() {
        return Err(full());
    }
    telemetry::recount_in_flight(engine, cap).await?;
    take().map(Some).ok_or_else(full)
}

/// The advertisement of dead letters: runs that failed when their retries were exhausted stay in
/// their own logs, to be read and forked like any other, for the retention of runs. The retention
/// is omitted if runs are never erased, or are kept for less than a day.
pub(crate) fn dead_letter(limits: &Limits) -> Value {
    let days = limits.retain_finished.map(|kept| kept.as_secs() / 86_400);
    match days.filter(|days| *days > 0) {
        Some(days) => json!({ "supported": true, "retentionDays": days }),
        None => json!({ "supported": true }),
    }
}

/// Whether the ledgers of effects, which are computed from logs, are kept for as long as the
/// protocol demands.
pub(crate) fn keeps_effects(limits: &Limits) -> bool {
    limits
        .retain_finished
        .is_none_or(|kept| kept >= EFFECTS_KEPT)
}

/// The production profile in the capabilities document.
///
/// A server with authentication has it if the retention of runs is at least the profile's. Streams
/// and connections are always bounded, with 503 above the bound; a cap on runs in flight is
/// advertised if there is one. `None` for a server of `--dev`, which serves one person's machine.
pub(crate) fn production(limits: &Limits, gate: &Gate, can_expire: bool) -> Option<Value> {
    if !gate.asks() {
        return None;
    }
    // Runs that are never erased satisfy every retention.
    let kept = limits.retain_finished.unwrap_or(LEAST_KEPT);
    let is_kept = kept >= LEAST_KEPT;
    let mut backpressure = json!({ "supported": true, "retryAfterSeconds": RETRY_AFTER });
    if let Some(cap) = limits.in_flight {
        backpressure["inflightCap"] = json!(cap);
    }
    let retention = if is_kept {
        json!({
            "supported": true, "minWindowSeconds": kept.as_secs(), "testForceExpire": can_expire,
        })
    } else {
        json!({ "supported": false })
    };
    Some(json!({
        "supported": is_kept,
        "backpressure": backpressure,
        "retention": retention,
        "debugBundle": { "supported": true, "truncationMetadata": true },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_kept_until_it_is_given_back() {
        let room = RunAdmission::default();
        let one = room.take(1, 3).expect("room for two");
        let two = room.take(1, 3).expect("room for one more");
        assert!(room.take(1, 3).is_none(), "who is refused keeps none");
        drop((one, two));
        assert!(room.take(2, 3).is_some());
        assert!(room.is_due() && !room.is_due(), "once in a while");
    }

    #[test]
    fn requests_are_counted_by_the_second() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut seen = Seen::none(start);
        let rates: Vec<u32> = [0, 100, 900, 1_000, 1_999, 2_100, 5_000]
            .into_iter()
            .map(|ms| {
                seen.count(at(ms));
                seen.rate()
            })
            .collect();
        // In the current second they may still be fewer than in the one before.
        assert_eq!(rates, [1, 2, 3, 3, 3, 2, 1]);
    }
}
