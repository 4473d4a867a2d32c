//! Who is taken in: requests by rate (429), new runs by what is in flight (503).

use std::hash::Hash;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use hyper::StatusCode;
use kernel::ids::TenantId;
use runtime::access::{Action, Principal};
use serde_json::{Value, json};

use crate::app::App;
use crate::auth::Gate;
use crate::limits::Limits;
use crate::problem::Problem;

/// Seconds after which what was refused for want of room may be tried again.
pub(crate) const RETRY_AFTER: u64 = 1;
/// The least that retention may be to be claimed, as the protocol has it.
const LEAST_KEPT: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Buckets above which those that are full again are forgotten.
const MANY: usize = 4_096;

/// Rates of requests, as token buckets. Who is nobody has none: what anybody may ask for, and
/// refused credentials, are not counted.
pub(crate) struct Rates {
    principals: Option<Buckets<(TenantId, String)>>,
    tenants: Option<Buckets<TenantId>>,
}

struct Buckets<K: Hash + Eq + Clone> {
    limiter: DefaultKeyedRateLimiter<K>,
    rate: NonZeroU32,
}

impl Rates {
    pub(crate) fn of(limits: &Limits) -> Self {
        Self {
            principals: limits.principal_rate.map(Buckets::new),
            tenants: limits.tenant_rate.map(Buckets::new),
        }
    }

    /// Counts a request.
    pub(crate) fn check(&self, who: &Principal) -> Result<(), Problem> {
        if let Some(principals) = &self.principals {
            principals.check(&(who.tenant.clone(), who.id.clone()), "key")?;
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
        }
    }

    fn check(&self, key: &K, scope: &'static str) -> Result<(), Problem> {
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
            "too many requests; go on after the time that Retry-After says",
        )
        .retry_after(ms.div_ceil(1_000))
        .with("retryAfterMs", ms)
        .with("scope", scope)
        .with("limit", self.rate.get()))
    }
}

/// Whether there is room for what an action begins.
pub(crate) fn check(app: &App, action: Action) -> Result<(), Problem> {
    let limits = app.limits();
    let Some(cap) = limits.in_flight.filter(|_| action == Action::CreateRun) else {
        return Ok(());
    };
    let streams = limits.streams - app.streams().available_permits();
    match app.api().engine().driving().max(streams) >= cap {
        false => Ok(()),
        true => Err(Problem::unavailable(
            "as many runs are in flight as this server takes; try again",
        )),
    }
}

/// Where runs lie that failed when their retries were used up: in their own logs, to be read and
/// forked like any other, for as long as runs are kept. Not told in days where nobody erases them,
/// or where they are kept for less than one.
pub(crate) fn dead_letter(limits: &Limits) -> Value {
    let days = limits.retain_finished.map(|kept| kept.as_secs() / 86_400);
    match days.filter(|days| *days > 0) {
        Some(days) => json!({ "supported": true, "retentionDays": days }),
        None => json!({ "supported": true }),
    }
}

/// The production profile: what the capabilities document says of it.
///
/// A server that asks for credentials has it while runs are kept as long as the profile asks. Streams
/// and connections are bounded and answered with 503 beyond that, always; a cap on runs in flight is
/// told where there is one. `None` for a server of `--dev`, which is for one person's machine.
pub(crate) fn production(limits: &Limits, gate: &Gate, can_expire: bool) -> Option<Value> {
    if !gate.asks() {
        return None;
    }
    // Runs that are never erased are kept as long as anybody asks for.
    let kept = limits.retain_finished.unwrap_or(LEAST_KEPT);
    let is_kept = kept >= LEAST_KEPT;
    let mut backpressure = json!({ "supported": true, "retryAfterSeconds": RETRY_AFTER });
    if let Some(cap) = limits.in_flight {
        backpressure["inflightCap"] = json!(cap);
    }
    let retention = match is_kept {
        true => json!({
            "supported": true, "minWindowSeconds": kept.as_secs(), "testForceExpire": can_expire,
        }),
        false => json!({ "supported": false }),
    };
    Some(json!({
        "supported": is_kept,
        "backpressure": backpressure,
        "retention": retention,
        "debugBundle": { "supported": true, "truncationMetadata": true },
    }))
}
