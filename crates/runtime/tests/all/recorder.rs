//! Sinks that record a node's output, and a context built of them.

use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use kernel::digest::Digest;
use kernel::run::budget::{Amounts, Budget, NotNow};
use kernel::run::event::OutputChannel;
use kernel::run::{Artifact, NodeError, Outcome, Report, Usage};
use kernel::stream::Owner;
use runtime::nodes::*;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::support::{DEADLINE, Lab};

/// The holder of reservations.
const ATTEMPT: &str = "the attempt";

/// A chunk as the log would store it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chunk {
    pub(crate) channel: OutputChannel,
    pub(crate) text: String,
    pub(crate) is_last: bool,
    pub(crate) meta: Option<Value>,
}

/// Records everything. Chunks pass only as far as there are permits.
pub(crate) struct Recorder {
    pub(crate) chunks: Mutex<Vec<Chunk>>,
    pub(crate) lines: Mutex<Vec<String>>,
    pub(crate) reports: Mutex<Vec<Report>>,
    /// The usage of model calls that was reported before the end.
    pub(crate) used: Mutex<Vec<Usage>>,
    /// The budget and its reservations.
    pub(crate) budget: Mutex<Budget>,
    pub(crate) kept: Mutex<Vec<(String, Vec<u8>)>>,
    pub(crate) permits: Semaphore,
    pub(crate) arrived: tokio::sync::Notify,
}

impl Recorder {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            chunks: Mutex::default(),
            lines: Mutex::default(),
            reports: Mutex::default(),
            used: Mutex::default(),
            budget: Mutex::default(),
            kept: Mutex::default(),
            permits: Semaphore::new(Semaphore::MAX_PERMITS),
            arrived: tokio::sync::Notify::new(),
        })
    }

    /// Sets budget limits.
    pub(crate) fn limit(&self, limits: &[(&str, u64)]) {
        let limits = limits
            .iter()
            .map(|(dimension, n)| ((*dimension).to_owned(), *n));
        self.budget.lock().unwrap().limits = limits.collect();
    }

    /// The settled spending.
    pub(crate) fn settled(&self, dimension: &str) -> u64 {
        let budget = self.budget.lock().unwrap();
        budget.spent.get(dimension).copied().unwrap_or(0)
    }

    /// The text of a channel, concatenated.
    pub(crate) fn text(&self, channel: OutputChannel) -> String {
        let chunks = self.chunks.lock().unwrap();
        chunks
            .iter()
            .filter(|c| c.channel == channel)
            .map(|c| c.text.as_str())
            .collect()
    }

    /// Waits until a channel contains some text.
    pub(crate) async fn wait_for(&self, channel: OutputChannel, text: &str) {
        let arrives = async {
            while !self.text(channel).contains(text) {
                self.arrived.notified().await;
            }
        };
        tokio::time::timeout(DEADLINE, arrives)
            .await
            .expect("the text arrives in time");
    }

    pub(crate) fn artifact(&self, artifact_type: &str) -> Option<Vec<u8>> {
        let kept = self.kept.lock().unwrap();
        kept.iter()
            .find(|(kind, _)| kind == artifact_type)
            .map(|(_, bytes)| bytes.clone())
    }

    pub(crate) fn context(self: &Arc<Self>, lab: &Lab) -> NodeContext {
        let ports = Ports {
            supervisor: lab.supervisor.clone(),
            outbound: lab.outbound.clone(),
            secrets: Arc::new(OneSecret),
            models: lab.models.clone(),
            keyring: Arc::new(lab.keyring()),
            workdir: lab.work(),
            programs: Arc::default(),
        };
        NodeContext {
            stop: CancellationToken::new(),
            output: self.clone(),
            artifacts: self.clone(),
            ports: Arc::new(ports),
        }
    }
}

#[async_trait]
impl OutputSink for Recorder {
    async fn chunk(
        &self,
        channel: OutputChannel,
        text: String,
        is_last: bool,
        meta: Option<Value>,
    ) -> Result<(), LeaseLost> {
        self.permits
            .acquire()
            .await
            .map_err(|_| LeaseLost)?
            .forget();
        self.chunks.lock().unwrap().push(Chunk {
            channel,
            text,
            is_last,
            meta,
        });
        self.arrived.notify_one();
        Ok(())
    }

    async fn log(
        &self,
        _level: kernel::run::event::LogLevel,
        message: String,
    ) -> Result<(), LeaseLost> {
        self.lines.lock().unwrap().push(message);
        Ok(())
    }

    async fn report(&self, report: Report) -> Result<(), LeaseLost> {
        match report {
            Report::Used(used) => {
                if let Some(spent) = &used.spent {
                    self.budget.lock().unwrap().settle(ATTEMPT, spent);
                }
                self.used.lock().unwrap().push(used.usage);
            }
            report => self.reports.lock().unwrap().push(report),
        }
        Ok(())
    }

    async fn reserve(&self, amounts: Amounts, least: Option<Amounts>) -> Result<(), NotReserved> {
        let mut budget = self.budget.lock().unwrap();
        let granted = match &least {
            Some(least) => budget.estimate(ATTEMPT, (&amounts, least), |_| false),
            None => (budget.fits(&amounts).map_err(NotNow::Exhausted)).map(|()| amounts),
        };
        match granted {
            Ok(amounts) => {
                budget.reserve(ATTEMPT, &amounts);
                Ok(())
            }
            Err(NotNow::Exhausted(exhausted)) => Err(NotReserved::Exhausted(exhausted)),
            Err(NotNow::Held) => unreachable!("there is one attempt"),
        }
    }
}

#[async_trait]
impl ArtifactSink for Recorder {
    async fn keep_file(
        &self,
        artifact_type: &str,
        media_type: &str,
        path: &Path,
    ) -> Result<Artifact, NodeError> {
        let bytes = tokio::fs::read(path).await.unwrap();
        self.keep_bytes(artifact_type, media_type, bytes).await
    }

    async fn keep_bytes(
        &self,
        artifact_type: &str,
        media_type: &str,
        bytes: Vec<u8>,
    ) -> Result<Artifact, NodeError> {
        let digest = Digest::compute(&bytes);
        let artifact = Artifact {
            artifact_id: format!("artifact-{artifact_type}"),
            artifact_type: artifact_type.to_owned(),
            media_type: media_type.to_owned(),
            size: bytes.len() as u64,
            digest,
            parts: vec![digest],
        };
        self.kept
            .lock()
            .unwrap()
            .push((artifact_type.to_owned(), bytes));
        Ok(artifact)
    }
}

/// Knows `env:TOKEN`.
pub(crate) struct OneSecret;

#[async_trait]
impl Secrets for OneSecret {
    async fn resolve(&self, _tenant: &Owner, reference: &str) -> Result<String, NodeError> {
        match reference {
            "env:TOKEN" => Ok("planted-secret".to_owned()),
            _ => Err(NodeError::new("credential_not_found", "there is no such secret").fatal()),
        }
    }
}

/// Runs a node once, with a valid config.
pub(crate) async fn run_node(
    lab: &Lab,
    recorder: &Arc<Recorder>,
    type_id: &str,
    config: Value,
    inputs: Value,
) -> Outcome {
    run_in(lab, recorder.context(lab), type_id, config, inputs).await
}

pub(crate) async fn run_in(
    lab: &Lab,
    cx: NodeContext,
    type_id: &str,
    config: Value,
    inputs: Value,
) -> Outcome {
    use kernel::definition::NodeTypes as _;
    let registry = Registry::standard();
    assert_eq!(
        registry.check_config(type_id, &config),
        [],
        "the config is valid"
    );
    let inputs: Map<String, Value> = serde_json::from_value(inputs).unwrap();
    let started = Started::unlogged(lab.run(), lab.key(), config, inputs);
    registry.get(type_id).unwrap().run(started, cx).await
}
