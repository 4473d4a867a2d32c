//! What a work node is, and what it is given.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kernel::definition::Reads;
use kernel::ids::{AttemptId, AttemptKey, StreamId, TenantId};
use kernel::problem::Problem;
#[cfg(feature = "testing")]
use kernel::run::budget::BudgetPolicy;
use kernel::run::budget::{Amounts, COST, Exhausted};
use kernel::run::event::OutputChannel;
use kernel::run::report::{ToolCalled, ToolReturned};
use kernel::run::{Artifact, ModelSettings, NodeError, Outcome, Report, Usage};
use kernel::stream::{Owner, PutBy};
#[cfg(feature = "testing")]
use kernel::trace;
use kernel::trace::TraceContext;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::redact::{RedactedStream, Redactor, secrets_of_variable};
use crate::secrets::Scope;
use crate::tools::TenantTools;

/// Whether an attempt whose holder was lost may run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Yes, with the same attempt key: its effect is harmless to repeat, or the other side
    /// recognises the key.
    Repeatable,
    /// No: the attempt fails with `outcome_unknown` and somebody decides.
    Once,
}

/// A type of work node.
#[async_trait]
pub trait WorkNode: Send + Sync + 'static {
    /// The type id definitions name it by.
    fn type_id(&self) -> &'static str;

    /// One line for people: what it does.
    fn summary(&self) -> &'static str;

    /// The repeat policy of a node with this (valid) config.
    fn repeat(&self, config: &Value) -> Repeat;

    /// JSON Schema (2020-12) of its config.
    fn config_schema(&self) -> Value;

    /// Checks beyond the schema; paths are JSON pointers into the config.
    fn check(&self, config: &Value) -> Vec<Problem> {
        let _ = config;
        Vec::new()
    }

    /// What a config without problems reads of the node's inputs; paths are JSON pointers into the
    /// config.
    fn reads(&self, config: &Value) -> Reads {
        let _ = config;
        Reads::default()
    }

    /// The names of what a node of this config gives. `None` where that is not known before.
    fn outputs(&self, config: &Value) -> Option<Vec<String>> {
        let _ = config;
        None
    }

    /// Whether a node with this (valid) config runs programs on this machine.
    fn runs_programs(&self, config: &Value, tools: &TenantTools<'_>) -> bool {
        let _ = (config, tools);
        false
    }

    /// Checks of a config in a definition that a tenant put; paths are JSON pointers into the
    /// config.
    fn check_of_tenant(&self, config: &Value) -> Vec<Problem> {
        let _ = config;
        Vec::new()
    }

    /// Whether an attempt that an earlier holder began has left a result which [`run`] will
    /// adopt. Then starting it again repeats nothing, even where [`repeat`] says `Once`. May
    /// block for as long as reading the result takes.
    ///
    /// [`run`]: WorkNode::run
    /// [`repeat`]: WorkNode::repeat
    fn has_result(&self, ports: &Ports, run: &StreamId, key: &AttemptKey) -> bool {
        let _ = (ports, run, key);
        false
    }

    /// Whether an attempt is told of the tool calls that it made before its holder was lost.
    fn remembers_calls(&self) -> bool {
        false
    }

    /// Whether an attempt whose holder was lost goes on from the calls it made, and repeats none
    /// that must not be. Then it is started again, even where [`repeat`] says `Once`. May block.
    ///
    /// [`repeat`]: WorkNode::repeat
    fn goes_on(&self, past: &Past<'_>) -> bool {
        let _ = past;
        false
    }

    /// Whether attempts leave something with the supervisor that has to be dropped once the log
    /// knows their outcome.
    fn leaves_results(&self) -> bool {
        false
    }

    /// The dimensions of the run's budget that an attempt spends from. Where one of them is used
    /// up, no attempt begins.
    fn spends(&self) -> &'static [&'static str] {
        &[]
    }

    /// What an attempt comes to, for a node that only computes: the same of the same, without
    /// anything outside. A replay computes such nodes again. `None` for every other node.
    fn compute(&self, given: &Given<'_>) -> Option<Outcome> {
        let _ = given;
        None
    }

    /// Runs one attempt to its end. Watches `cx.stop`: when it fires, everything the attempt
    /// started is stopped before this returns (with [`Outcome::Stopped`]).
    async fn run(&self, started: Started, cx: NodeContext) -> Outcome;
}

/// A tool call of an attempt, as the log has it.
#[derive(Clone, Debug)]
pub struct PastCall {
    /// What was called.
    pub called: ToolCalled,
    /// How it went; nothing where nobody knows.
    pub returned: Option<ToolReturned>,
}

/// What an attempt did before its holder was lost, as the log has it.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    /// Its tool calls, in order.
    pub calls: Vec<PastCall>,
    /// What its calls of models used, as far as it was reported.
    pub usage: Vec<Usage>,
}

/// What an attempt did before its holder was lost, to a node that is asked whether it goes on.
#[derive(Clone, Copy)]
pub struct Past<'a> {
    /// The node's config.
    pub config: &'a Value,
    /// Its tool calls, in order.
    pub calls: &'a [PastCall],
    /// Ports to the outside.
    pub ports: &'a Ports,
    /// The run.
    pub run: &'a StreamId,
    /// The key of the attempt.
    pub key: &'a AttemptKey,
}

/// What a node that only computes computes from.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// The node's config.
    pub config: &'a Value,
    /// What its ports resolved to.
    pub inputs: &'a Map<String, Value>,
    /// The key of the attempt; the same in a replay.
    pub key: &'a AttemptKey,
}

/// An attempt whose start is durable. Only the driver can make one, from an append that has
/// returned: intent before effect.
#[derive(Clone, Debug)]
pub struct Started {
    pub(crate) owner: Owner,
    pub(crate) put_by: PutBy,
    pub(crate) run: StreamId,
    pub(crate) attempt: AttemptId,
    pub(crate) key: AttemptKey,
    pub(crate) restarts: u32,
    pub(crate) config: Arc<Value>,
    pub(crate) inputs: Map<String, Value>,
    pub(crate) settings: Arc<Map<String, Value>>,
    pub(crate) limits: Arc<Amounts>,
    pub(crate) has_part_of_budget: bool,
    pub(crate) trace: TraceContext,
    pub(crate) past: Arc<Remembered>,
}

impl Started {
    /// A start that no log knows of, for the tests of a node.
    #[cfg(feature = "testing")]
    pub fn unlogged(
        run: StreamId,
        key: AttemptKey,
        config: Value,
        inputs: Map<String, Value>,
    ) -> Self {
        let attempt = AttemptId {
            node: "node".into(),
            visit: 0,
            attempt: 0,
        };
        let span = trace::attempt_span(&run, &attempt);
        Self {
            owner: Owner::tenant("local"),
            put_by: PutBy::Operator,
            trace: TraceContext::named_after(&run).within(span),
            run,
            attempt,
            key,
            restarts: 0,
            config: Arc::new(config),
            inputs,
            settings: Arc::default(),
            limits: Arc::default(),
            has_part_of_budget: false,
            past: Arc::default(),
        }
    }

    /// The same start in a run whose creator settled this.
    #[cfg(feature = "testing")]
    pub fn settled(mut self, settings: Map<String, Value>) -> Self {
        self.limits = Arc::new(BudgetPolicy::of_stored(settings.get("budget")).limits);
        self.settings = Arc::new(settings);
        self
    }

    /// The same start in a run of this owner.
    #[cfg(feature = "testing")]
    pub fn owned(mut self, owner: Owner) -> Self {
        self.owner = owner;
        self
    }

    /// The same start in a run of a definition that its tenant put.
    #[cfg(feature = "testing")]
    pub fn put_by_tenant(mut self) -> Self {
        self.put_by = PutBy::Tenant;
        self
    }

    /// The same start after it did this.
    #[cfg(feature = "testing")]
    pub fn after(mut self, past: Remembered) -> Self {
        self.past = Arc::new(past);
        self
    }

    /// The same start after its holder was lost `restarts` times.
    #[cfg(feature = "testing")]
    pub fn restarted(mut self, restarts: u32) -> Self {
        self.restarts = restarts;
        self
    }

    /// The run's tenant.
    pub fn tenant(&self) -> &TenantId {
        &self.owner.tenant
    }

    /// Who the run belongs to, in full.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Who put the run's definition.
    pub fn put_by(&self) -> PutBy {
        self.put_by
    }

    /// The run.
    pub fn run(&self) -> &StreamId {
        &self.run
    }

    /// Which attempt this is.
    pub fn attempt(&self) -> &AttemptId {
        &self.attempt
    }

    /// The key by which an effect of this attempt can be recognised; the same after a restart.
    pub fn key(&self) -> &AttemptKey {
        &self.key
    }

    /// How often this attempt was restarted because its holder was lost.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// The tool calls it made before its holder was lost, in order; of a node that remembers them.
    pub fn past(&self) -> &[PastCall] {
        &self.past.calls
    }

    /// What its calls of models had used by then, as far as the log has it.
    pub fn past_usage(&self) -> &[Usage] {
        &self.past.usage
    }

    /// The node's config.
    pub fn config(&self) -> &Value {
        &self.config
    }

    /// What the run's creator settled: its `configurable`, as it was given.
    pub fn settings(&self) -> &Map<String, Value> {
        &self.settings
    }

    /// The same, as far as it is about models.
    pub fn model_settings(&self) -> ModelSettings<'_> {
        ModelSettings::of(&self.settings)
    }

    /// What a node that only computes is given.
    pub(super) fn given(&self) -> Given<'_> {
        Given {
            config: &self.config,
            inputs: &self.inputs,
            key: &self.key,
        }
    }

    /// Whether what the run may spend is bounded, so that it is set aside before it is spent.
    pub fn is_budgeted(&self) -> bool {
        !self.limits.is_empty()
    }

    /// Whether that bound is only a part of what a parent may spend, so that calls have to fit.
    pub(crate) fn has_part_of_budget(&self) -> bool {
        self.has_part_of_budget
    }

    /// Whether the money is bounded that the run may spend.
    pub fn has_money_limit(&self) -> bool {
        self.limits.contains_key(COST)
    }

    /// The span of this attempt, in which all it does happens.
    pub fn trace(&self) -> &TraceContext {
        &self.trace
    }

    /// What the node's ports resolved to.
    pub fn inputs(&self) -> &Map<String, Value> {
        &self.inputs
    }
}

/// What an attempt may use.
#[derive(Clone)]
pub struct NodeContext {
    /// Fires when the run no longer wants this attempt.
    pub stop: CancellationToken,
    /// Where output goes while it comes.
    pub output: Arc<dyn OutputSink>,
    /// Where artifacts go.
    pub artifacts: Arc<dyn ArtifactSink>,
    /// Ports to the outside.
    pub ports: Arc<Ports>,
}

/// Takes output of an attempt as it comes. Waits while the log is behind, so that a fast
/// producer is slowed down and memory stays bounded.
#[async_trait]
pub trait OutputSink: Send + Sync {
    /// Appends a chunk of at most [`kernel::limits::MAX_CHUNK_BYTES`] to the log. An error means
    /// that this process does not hold the run any more: the attempt should stop.
    async fn chunk(
        &self,
        channel: OutputChannel,
        text: String,
        is_last: bool,
        meta: Option<Value>,
    ) -> Result<(), HoldLost>;

    /// Keeps a line in the log.
    async fn log(&self, level: &str, message: String) -> Result<(), HoldLost>;

    /// Keeps in the log what became of a tool call or of a model's answer.
    async fn report(&self, report: Report) -> Result<(), HoldLost>;

    /// Sets part of the run's budget aside, on top of what this attempt has. What was not spent
    /// is free again with its outcome, or with a report of what was used. With `least` the amounts
    /// are an estimate: this waits for what others may give back, and takes what is left.
    async fn reserve(&self, amounts: Amounts, least: Option<Amounts>) -> Result<(), NotReserved>;
}

/// Nothing was set aside.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReserved {
    /// This process does not hold the run any more.
    #[error("another process has taken the run over")]
    HoldLost,
    /// The run may not spend so much.
    #[error(transparent)]
    Exhausted(Exhausted),
}

/// This process does not hold the run any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another process has taken the run over")]
pub struct HoldLost;

/// Takes artifacts of an attempt: bytes of any length in bounded memory.
#[async_trait]
pub trait ArtifactSink: Send + Sync {
    /// Keeps a file's bytes as blobs of the tenant and describes them. The artifact is announced
    /// by the completion (or failure) that carries it.
    async fn keep_file(
        &self,
        artifact_type: &str,
        media_type: &str,
        path: &std::path::Path,
    ) -> Result<Artifact, NodeError>;

    /// Keeps bytes that are in memory anyway.
    async fn keep_bytes(
        &self,
        artifact_type: &str,
        media_type: &str,
        bytes: Vec<u8>,
    ) -> Result<Artifact, NodeError>;
}

/// The outside world, as this process was composed.
#[derive(Clone)]
pub struct Ports {
    /// Starts processes so that none outlives the engine unseen.
    pub supervisor: crate::supervisor::Supervisor,
    /// Sends HTTP requests past the SSRF guard.
    pub outbound: crate::outbound::Outbound,
    /// Resolves secrets by reference.
    pub secrets: Arc<dyn Secrets>,
    /// Models and tools nodes may use.
    pub models: Arc<crate::models::Providers>,
    /// Keys that sensitive values are sealed with.
    pub keyring: Arc<dyn crate::keyring::Keyring>,
    /// The folder relative paths of process nodes start from.
    pub workdir: PathBuf,
    /// Who may have programs run.
    pub programs: Arc<crate::programs::Programs>,
}

/// Resolves secrets by reference. Values go to the node and nowhere else; the driver tells the
/// redactor every value it hands out.
#[async_trait]
pub trait Secrets: Send + Sync {
    /// The value of a reference in a run of this owner.
    async fn resolve(&self, owner: &Owner, reference: &str) -> Result<String, NodeError>;

    /// Who secrets are kept for; nothing where none are kept.
    fn scopes(&self) -> &'static [Scope] {
        &[]
    }

    /// Whether somebody has a secret of a name.
    fn has(&self, _name: &str) -> bool {
        false
    }

    /// A text without the secrets that were handed out so far, for whoever must not be told them.
    fn redacted(&self, text: &str) -> String {
        text.to_owned()
    }

    /// The same for a text that comes in pieces.
    fn stream(&self) -> RedactedStream {
        Redactor::default().stream()
    }

    /// Takes note of a secret that was found another way and is about to be used.
    ///
    /// # Errors
    /// When it cannot be kept out of the log; then it must not be used.
    fn learn(&self, reference: &str, value: &str) -> Result<(), NodeError> {
        let _ = (reference, value);
        Ok(())
    }
}

/// Bytes that the value of an inherited variable has at least to be looked for in what comes back.
pub(crate) const MIN_INHERITED_BYTES: usize = 8;

/// Takes note of a variable that a program inherits, where its name is that of a secret or it is an
/// address with one: what the program says of it is kept out of the log. One that is too short to be told from ordinary
/// words, or no secret but a document, is not looked for.
pub(crate) fn learn_inherited(ports: &Ports, name: &str, value: &str) {
    for (name, secret) in secrets_of_variable(name, value) {
        if secret.len() >= MIN_INHERITED_BYTES {
            let _ = ports.secrets.learn(&name, &secret);
        }
    }
}

/// Longest time an attempt is given to stop before its process group is killed outright.
pub const STOP_GRACE: Duration = Duration::from_secs(5);
