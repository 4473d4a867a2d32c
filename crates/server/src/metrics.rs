//! A server's metrics in the format of Prometheus. Only routes and other fixed names: no data of
//! tenants.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use hyper::{Method, StatusCode};
use parking_lot::Mutex;
use runtime::access::trail::Lag;
use runtime::telemetry::{Histogram, Meters, Page};

/// Histogram bounds in seconds.
const BUCKETS: [f64; 10] = [
    0.000_5, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 30.0,
];

/// The metrics of a server.
#[derive(Default)]
pub struct Metrics {
    /// Counts by route, method and status.
    answers: Mutex<BTreeMap<(&'static str, &'static str, u16), u64>>,
    /// Durations by route.
    seconds: Mutex<BTreeMap<&'static str, Histogram>>,
    /// Open connections.
    pub(crate) connections: AtomicI64,
    /// Open streams of events.
    pub(crate) streams: AtomicI64,
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
        let answered = (route, method, status.as_u16());
        *self.answers.lock().entry(answered).or_default() += 1;
        let mut seconds = self.seconds.lock();
        let seconds = seconds
            .entry(route)
            .or_insert_with(|| Histogram::new(&BUCKETS));
        seconds.observe(took.as_secs_f64());
    }

    /// All metrics as text. `driven` is the number of runs this process drives, `lag` that of the
    /// audit trails, `runs` the metrics of runs.
    pub(crate) fn text(&self, driven: usize, lag: Lag, runs: &Meters) -> String {
        let mut page = Page::default();
        let name = "runwright_http_requests";
        page.metric(name, "counter", Some("Requests answered"));
        for ((route, method, status), count) in &*self.answers.lock() {
            let labels = [
                ("route", (*route).to_owned()),
                ("method", (*method).to_owned()),
                ("status", status.to_string()),
            ];
            page.value(&format!("{name}_total"), &labels, count);
        }
        let name = "runwright_http_request_seconds";
        let help = "Time to the answer, or to the start of a stream";
        page.metric(name, "histogram", Some(help));
        for (route, seconds) in &*self.seconds.lock() {
            page.histogram(name, &[("route", (*route).to_owned())], seconds);
        }
        let now = |gauge: &AtomicI64| gauge.load(Ordering::Relaxed).to_string();
        for (name, help, value) in [
            (
                "http_connections",
                "Open connections",
                now(&self.connections),
            ),
            ("http_streams", "Open streams of events", now(&self.streams)),
            (
                "runs_driven",
                "Runs this process drives now",
                driven.to_string(),
            ),
            (
                "audit_outbox_entries",
                "Entries waiting to be written to audit trails",
                lag.entries.to_string(),
            ),
            (
                "audit_outbox_oldest_seconds",
                "Waiting time of the oldest of them",
                (lag.oldest_ms / 1_000).to_string(),
            ),
        ] {
            let name = format!("runwright_{name}");
            page.metric(&name, "gauge", Some(help));
            page.value(&name, &[], value);
        }
        runs.print(&mut page);
        page.finish()
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
