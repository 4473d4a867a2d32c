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
use crate::limits::Limits;
use crate::problem::Problem;

/// Seconds after which a refused creation may be tried again.
const RETRY_AFTER: u64 = 1;
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
        )
        .retry_after(RETRY_AFTER)),
    }
}

/// What the capabilities document says of it, and of the other parts of the production profile
/// that whoever runs the server has settled.
pub(crate) fn advertised(limits: &Limits) -> Option<Value> {
    let backpressure = limits.in_flight.map(
        |cap| json!({ "supported": true, "inflightCap": cap, "retryAfterSeconds": RETRY_AFTER }),
    );
    let kept = limits.retain_finished.filter(|kept| *kept >= LEAST_KEPT);
    let retention = kept.map(|kept| {
        json!({
            "supported": true, "minWindowSeconds": kept.as_secs(), "testForceExpire": false,
        })
    });
    if backpressure.is_none() && retention.is_none() {
        return None;
    }
    let mut production = json!({
        // The profile also asks for a published run of the protocol's own suite.
        "supported": false,
        "debugBundle": { "supported": true, "truncationMetadata": true },
    });
    for (name, part) in [("backpressure", backpressure), ("retention", retention)] {
        if let Some(part) = part {
            production[name] = part;
        }
    }
    Some(production)
}
