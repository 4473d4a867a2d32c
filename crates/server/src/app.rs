//! The application: the shared state of handlers, and the router.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::{RawPathParams, Request};
use axum::routing::any;
use bytes::Bytes;
use hyper::HeaderMap;
use runtime::access::Principal;
use runtime::api::Api;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::admission::{RateLimits, RunAdmission};
use crate::auth::{self, Gate};
use crate::limits::Limits;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::pipeline;
use crate::problem::Problem;
use crate::route::{Route, Table};
use crate::sunset::Sunset;
use crate::{discovery, fixtures, openapi, routes};

/// The life cycle of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Still starting.
    Starting,
    /// Accepts and drives runs.
    Ready,
    /// Accepts nothing new.
    Draining,
}

/// The shared state of handlers. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Inner>);

struct Inner {
    api: Api,
    gate: Gate,
    limits: Limits,
    metrics: Metrics,
    rates: RateLimits,
    room: RunAdmission,
    memory: Memory,
    phase: AtomicU8,
    draining: CancellationToken,
    streams: Arc<Semaphore>,
    discovery: Bytes,
    discovery_v2: Bytes,
    openapi: Bytes,
    openapi_v2: Bytes,
    workbench_openapi: Bytes,
    snapshots: OnceLock<PathBuf>,
    sunset: Option<Sunset>,
}

impl App {
    /// An application in the starting phase.
    pub fn new(api: Api, gate: Gate, limits: Limits) -> Self {
        Self::offering(api, gate, limits, &[])
    }

    /// The same with workflows that every tenant may run, by their ids.
    pub fn offering(api: Api, gate: Gate, limits: Limits, workflows: &[String]) -> Self {
        let configured = discovery::Configured {
            models: api.engine().models(),
            key: api.audit_key(),
            test_provider: api.has_test_provider(),
            exports: api.engine().door().hints().meters().is_exported(),
            node_types: &api.engine().node_types(),
            secret_scopes: api.engine().secret_scopes(),
            has_canary: api.engine().has_secret(fixtures::CANARY),
            workflows,
            can_expire: api.can_expire(),
        };
        let credentials = if gate.asks() {
            openapi::Credentials::Needed
        } else {
            openapi::Credentials::Optional
        };
        Self(Arc::new(Inner {
            discovery: discovery::document(&limits, &gate, configured)
                .to_string()
                .into(),
            discovery_v2: discovery::v2::document(&limits, &gate, configured)
                .to_string()
                .into(),
            openapi: openapi::openwop(&routes::all(), credentials)
                .to_string()
                .into(),
            openapi_v2: openapi::v2::document(&routes::all(), credentials)
                .to_string()
                .into(),
            workbench_openapi: routes::workbench::openapi::document(credentials)
                .to_string()
                .into(),
            sunset: limits.v1_sunset.and_then(Sunset::new),
            snapshots: OnceLock::new(),
            streams: Arc::new(Semaphore::new(limits.streams)),
            metrics: Metrics::default(),
            rates: RateLimits::new(&limits),
            memory: Memory::new(&limits),
            room: RunAdmission::default(),
            phase: AtomicU8::new(Phase::Starting as u8),
            draining: CancellationToken::new(),
            api,
            gate,
            limits,
        }))
    }

    /// The same application, storing snapshots of runs below a folder.
    pub fn with_snapshots(self, folder: PathBuf) -> Self {
        self.0.snapshots.get_or_init(|| folder);
        self
    }

    /// The folder of snapshots, if they are stored.
    pub(crate) fn snapshots(&self) -> Option<&PathBuf> {
        self.0.snapshots.get()
    }

    /// The announced end of OpenWOP 1.
    pub(crate) fn sunset(&self) -> Option<&Sunset> {
        self.0.sunset.as_ref()
    }

    /// The command API.
    pub fn api(&self) -> &Api {
        &self.0.api
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Memory for large bodies.
    pub(crate) fn memory(&self) -> &Memory {
        &self.0.memory
    }

    /// The metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// The current phase.
    pub fn phase(&self) -> Phase {
        match self.0.phase.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            _ => Phase::Draining,
        }
    }

    /// Marks it ready.
    pub fn ready(&self) {
        let (from, to) = (Phase::Starting as u8, Phase::Ready as u8);
        let _ = self
            .0
            .phase
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Accepts nothing new from now on: streams end, and requests that change something are told to
    /// retry.
    pub fn drain(&self) {
        self.0.phase.store(Phase::Draining as u8, Ordering::Release);
        self.0.draining.cancel();
    }

    /// Cancelled by [`App::drain`].
    pub fn draining(&self) -> &CancellationToken {
        &self.0.draining
    }

    /// The principal of a request.
    pub(crate) async fn caller(&self, headers: &HeaderMap) -> Result<Arc<Principal>, Problem> {
        if self.gate().asks()
            && let Ok(token) = auth::token(headers)
            && Api::is_read_token(token)
        {
            return Ok(Arc::new(self.api().reader(token)?));
        }
        self.gate().caller(headers).await
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.0.gate
    }

    pub(crate) fn rates(&self) -> &RateLimits {
        &self.0.rates
    }

    pub(crate) fn room(&self) -> &RunAdmission {
        &self.0.room
    }

    pub(crate) fn streams(&self) -> &Arc<Semaphore> {
        &self.0.streams
    }

    pub(crate) fn discovery(&self) -> Bytes {
        self.0.discovery.clone()
    }

    pub(crate) fn openapi(&self) -> Bytes {
        self.0.openapi.clone()
    }

    pub(crate) fn discovery_v2(&self) -> Bytes {
        self.0.discovery_v2.clone()
    }

    pub(crate) fn openapi_v2(&self) -> Bytes {
        self.0.openapi_v2.clone()
    }

    pub(crate) fn workbench_openapi(&self) -> Bytes {
        self.0.workbench_openapi.clone()
    }
}

/// The router of an application.
pub fn app(app: App) -> Router {
    router(app, routes::all())
}

/// The router of a table of routes.
pub(crate) fn router(app: App, routes: Vec<Route>) -> Router {
    let mut tables: BTreeMap<String, Table> = BTreeMap::new();
    for route in routes {
        for path in route.mounted_at() {
            tables.entry(path).or_default().add(route.clone());
        }
    }
    let mut router = Router::new();
    for (path, table) in tables {
        let (app, table) = (app.clone(), Arc::new(table));
        let handler = move |params: Result<RawPathParams, _>, request: Request| {
            pipeline::answer(app.clone(), Some(table.clone()), params.ok(), request)
        };
        router = router.route(&path, any(handler));
    }
    router.fallback(move |request: Request| pipeline::answer(app.clone(), None, None, request))
}
