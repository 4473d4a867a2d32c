//! A server's metrics in the format of Prometheus. Only routes and other fixed names: no data of
//! tenants.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use hyper::{Method, StatusCode};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use runtime::access::trail::Lag;

/// Histogram bounds in seconds.
const BUCKETS: [f64; 10] = [
    0.000_5, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 30.0,
];

/// The last line of every response.
const END: &str = "# EOF\n";

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Answered {
    route: &'static str,
    method: &'static str,
    status: u16,
}

impl EncodeLabelSet for Answered {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), std::fmt::Error> {
        [("route", self.route), ("method", self.method)].encode(encoder)?;
        [("status", self.status.to_string())].encode(encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Of {
    route: &'static str,
}

impl EncodeLabelSet for Of {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), std::fmt::Error> {
        [("route", self.route)].encode(encoder)
    }
}

/// The metrics of a server.
#[derive(Default)]
pub struct Metrics {
    answers: Family<Answered, Counter>,
    seconds: Seconds,
    /// Open connections.
    pub(crate) connections: AtomicI64,
    /// Open streams of events.
    pub(crate) streams: AtomicI64,
}

struct Seconds(Family<Of, Histogram, fn() -> Histogram>);

impl Default for Seconds {
    fn default() -> Self {
        Self(Family::new_with_constructor(|| Histogram::new(BUCKETS)))
    }
}

impl Metrics {
    /// Counts a response, or the beginning of a stream.
    pub(crate) fn answered(
        &self,
        route: &'static str,
        method: &Method,
        status: StatusCode,
        took: Duration,
    ) {
        // Clients may send any text as an unknown method.
        let method = match *method {
            Method::GET => "GET",
            Method::HEAD => "HEAD",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::DELETE => "DELETE",
            _ => "other",
        };
        let answered = Answered {
            route,
            method,
            status: status.as_u16(),
        };
        self.answers.get_or_create(&answered).inc();
        self.seconds
            .0
            .get_or_create(&Of { route })
            .observe(took.as_secs_f64());
    }

    /// All metrics as text. `driven` is the number of runs this process drives, `lag` that of the
    /// audit trails, `runs` the metrics of runs.
    pub(crate) fn text(&self, driven: usize, lag: Lag, runs: &str) -> String {
        let mut registry = Registry::with_prefix("runwright");
        registry.register("http_requests", "Requests answered", self.answers.clone());
        registry.register(
            "http_request_seconds",
            "Time to the answer, or to the start of a stream",
            self.seconds.0.clone(),
        );
        let gauge = |value: i64| ConstGauge::new(value);
        let connections = gauge(self.connections.load(Ordering::Relaxed));
        let streams = gauge(self.streams.load(Ordering::Relaxed));
        let driven = gauge(i64::try_from(driven).unwrap_or(i64::MAX));
        registry.register("http_connections", "Open connections", connections);
        registry.register("http_streams", "Open streams of events", streams);
        registry.register("runs_driven", "Runs this process drives now", driven);
        let entries = gauge(i64::try_from(lag.entries).unwrap_or(i64::MAX));
        let oldest = gauge(i64::try_from(lag.oldest_ms / 1_000).unwrap_or(i64::MAX));
        registry.register(
            "audit_outbox_entries",
            "Entries waiting to be written to audit trails",
            entries,
        );
        registry.register(
            "audit_outbox_oldest_seconds",
            "Waiting time of the oldest of them",
            oldest,
        );
        let mut text = String::new();
        // Writing to a text cannot fail.
        let _ = encode(&mut text, &registry);
        let end = text.trim_end_matches(END).len();
        text.insert_str(end, runs);
        text
    }
}

/// Increments a gauge as long as it lives.
pub(crate) struct Counted<F: Fn(&Metrics) -> &AtomicI64> {
    app: crate::App,
    of: F,
}

impl<F: Fn(&Metrics) -> &AtomicI64> Counted<F> {
    pub(crate) fn new(app: crate::App, of: F) -> Self {
        of(app.metrics()).fetch_add(1, Ordering::Relaxed);
        Self { app, of }
    }
}

impl<F: Fn(&Metrics) -> &AtomicI64> Drop for Counted<F> {
    fn drop(&mut self) {
        (self.of)(self.app.metrics()).fetch_sub(1, Ordering::Relaxed);
    }
}
