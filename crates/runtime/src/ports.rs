//! The interface of work nodes, and the inputs of an attempt.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kernel::definition::Reads;
use kernel::ids::{AttemptId, AttemptKey, EffectKey, StreamId, TenantId};
use kernel::problem::Problem;
#[cfg(feature = "testing")]
use kernel::run::budget::BudgetPolicy;
use kernel::run::budget::{Amounts, COST, Exhausted};
use kernel::run::effects::ReceiverKey;
use kernel::run::event::{LogLevel, OutputChannel};
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

/// Whether an attempt whose holder was lost may be restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Yes, with the same attempt key: repeating its effect is harmless, or the other side
    /// recognises the key.
    Repeatable,
    /// No: the attempt fails with `outcome_unknown` and a person decides.
    Once,
}

/// A type of work node.
#[async_trait]
pub trait WorkNode: Send + Sync + 'static {
    /// The type id in definitions.
    fn type_id(&self) -> &'static str;

    /// One line for people that says what it does.
    fn summary(&self) -> &'static str;

    /// The repeat policy of a node with this (valid) config.
    fn repeat(&self, config: &Value) -> Repeat;

    /// How the receiver of the effect of a node with this (valid) config and these inputs
    /// recognises a repetition. `None` for a node without effects.
    fn effect(&self, config: &Value, inputs: &Map<String, Value>) -> Option<ReceiverKey> {
        let _ = (config, inputs);
        Some(ReceiverKey::None)
    }

    /// JSON Schema (2020-12) of its config.
    fn config_schema(&self) -> Value;

    /// Checks beyond the schema; paths are JSON pointers into the config.
    fn check(&self, config: &Value) -> Vec<Problem> {
        let _ = config;
        Vec::new()
    }

    /// The node inputs that a config without problems reads; paths are JSON pointers into the
    /// config.
    fn reads(&self, config: &Value) -> Reads {
        let _ = config;
        Reads::default()
    }

    /// The names of the outputs of a node with this config. `None` if they are not known in
    /// advance.
    fn outputs(&self, config: &Value) -> Option<Vec<String>> {
        let _ = config;
        None
    }

    /// Whether a node with this (valid) config runs programs on this machine.
    fn runs_programs(&self, config: &Value, tools: &TenantTools<'_>) -> bool {
        let _ = (config, tools);
        false
    }

    /// Additional checks of a config in a definition of a tenant; paths are JSON pointers into the
    /// config.
    fn check_of_tenant(&self, config: &Value) -> Vec<Problem> {
        let _ = config;
        Vec::new()
    }

    /// Whether an attempt of an earlier holder has left a result that [`run`] will adopt. Then
    /// restarting it repeats nothing, even if [`repeat`] is `Once`. May block while the result is
    /// read.
    ///
    /// [`run`]: WorkNode::run
    /// [`repeat`]: WorkNode::repeat
    fn has_result(&self, ports: &Ports, run: &StreamId, key: &AttemptKey) -> bool {
        let _ = (ports, run, key);
        false
    }

    /// Whether a restarted attempt receives the tool calls made before its holder was lost.
    fn remembers_calls(&self) -> bool {
        false
    }

    /// Whether an attempt whose holder was lost resumes from its recorded calls without repeating
    /// one that must not be. Then it is restarted, even if [`repeat`] is `Once`. May block.
    ///
    /// [`repeat`]: WorkNode::repeat
    fn goes_on(&self, past: &Past<'_>) -> bool {
        let _ = past;
        false
    }

    /// Whether attempts leave results with the supervisor that must be dropped once the outcome is
    /// in the log.
    fn leaves_results(&self) -> bool {
        false
    }

    /// The budget dimensions that an attempt spends. If one of them is exhausted, no attempt
    /// begins.
    fn spends(&self) -> &'static [&'static str] {
        &[]
    }

    /// The outcome of an attempt of a pure node: determined by its inputs alone. A replay computes
    /// such nodes again. `None` for every other node.
    fn compute(&self, given: &Given<'_>) -> Option<Outcome> {
        let _ = given;
        None
    }

    /// Runs one attempt to its end. Watches `cx.stop`: when it fires, everything the attempt
    /// started is stopped before this returns (with [`Outcome::Stopped`]).
    async fn run(&self, started: Started, cx: NodeContext) -> Outcome;
}

/// A recorded tool call of an attempt.
#[derive(Clone, Debug)]
pub struct PastCall {
    /// The call.
    pub called: ToolCalled,
    /// The result; `None` if it is unknown.
    pub returned: Option<ToolReturned>,
}

/// The recorded history of an attempt before its holder was lost.
#[derive(Clone, Debug, Default)]
pub struct AttemptHistory {
    /// Its tool calls, in order.
    pub calls: Vec<PastCall>,
    /// The reported usage of its model calls.
    pub usage: Vec<Usage>,
}

/// The history of an attempt whose holder was lost, for the decision whether it resumes.
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

/// The inputs of a pure node.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// The node's config.
    pub config: &'a Value,
    /// The resolved inputs of its ports.
    pub inputs: &'a Map<String, Value>,
    /// The key of the attempt; the same in a replay.
    pub key: &'a AttemptKey,
}

/// An attempt whose start is durable. Only the driver makes one, after the append has returned:
/// intent before effect.
#[derive(Clone, Debug)]
pub struct Started {
    pub(crate) owner: Owner,
    pub(crate) put_by: PutBy,
    pub(crate) run: StreamId,
    pub(crate) attempt: AttemptId,
    pub(crate) key: AttemptKey,
    pub(crate) effect: EffectKey,
    pub(crate) restarts: u32,
    pub(crate) config: Arc<Value>,
    pub(crate) inputs: Map<String, Value>,
    pub(crate) settings: Arc<Map<String, Value>>,
    pub(crate) limits: Arc<Amounts>,
    pub(crate) has_part_of_budget: bool,
    pub(crate) trace: TraceContext,
    pub(crate) past: Arc<AttemptHistory>,
}

impl Started {
    /// A start without a log, for the tests of a node.
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
            effect: attempt.effect_key(&run),
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

    /// The same start with these settings of the run's creator.
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

    /// The same start with this history.
    #[cfg(feature = "testing")]
    pub fn after(mut self, past: AttemptHistory) -> Self {
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

    /// The run's owner.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Who registered the run's definition.
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

    /// The key by which effects of this attempt are recognised; the same after a restart.
    pub fn key(&self) -> &AttemptKey {
        &self.key
    }

    /// The key by which the receiver of its effect recognises a repetition; the same in every
    /// attempt of the visit.
    pub fn effect(&self) -> &EffectKey {
        &self.effect
    }

    /// How often this attempt was restarted because its holder was lost.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// The tool calls made before its holder was lost, in order, if the node remembers calls.
    pub fn past(&self) -> &[PastCall] {
        &self.past.calls
    }

    /// The recorded usage of its model calls before the restart.
    pub fn past_usage(&self) -> &[Usage] {
        &self.past.usage
    }

    /// The node's config.
    pub fn config(&self) -> &Value {
        &self.config
    }

    /// The run's `configurable`, as its creator gave it.
    pub fn settings(&self) -> &Map<String, Value> {
        &self.settings
    }

    /// The model settings among them.
    pub fn model_settings(&self) -> ModelSettings<'_> {
        ModelSettings::new(&self.settings)
    }

    /// The inputs of a pure node.
    pub(crate) fn given(&self) -> Given<'_> {
        Given {
            config: &self.config,
            inputs: &self.inputs,
            key: &self.key,
        }
    }

    /// Whether the run has a budget, so that amounts are reserved before they are spent.
    pub fn is_budgeted(&self) -> bool {
        !self.limits.is_empty()
    }

    /// Whether the budget is a share of a parent's, so that calls must fit into it.
    pub(crate) fn has_part_of_budget(&self) -> bool {
        self.has_part_of_budget
    }

    /// Whether the run has a cost limit.
    pub fn has_money_limit(&self) -> bool {
        self.limits.contains_key(COST)
    }

    /// The span of this attempt.
    pub fn trace(&self) -> &TraceContext {
        &self.trace
    }

    /// The resolved inputs of the node's ports.
    pub fn inputs(&self) -> &Map<String, Value> {
        &self.inputs
    }
}

/// The resources of an attempt.
#[derive(Clone)]
pub struct NodeContext {
    /// Fires when the run no longer wants this attempt.
    pub stop: CancellationToken,
    /// The sink for streamed output.
    pub output: Arc<dyn OutputSink>,
    /// The sink for artifacts.
    pub artifacts: Arc<dyn ArtifactSink>,
    /// Ports to the outside.
    pub ports: Arc<Ports>,
}

/// Accepts output of an attempt as it is produced. Applies backpressure while the log lags, so that
/// memory stays bounded.
#[async_trait]
pub trait OutputSink: Send + Sync {
    /// Appends a chunk of at most [`kernel::limits::MAX_CHUNK_BYTES`] to the log. An error means
    /// that this process no longer holds the run: the attempt should stop.
    async fn chunk(
        &self,
        channel: OutputChannel,
        text: String,
        is_last: bool,
        meta: Option<Value>,
    ) -> Result<(), LeaseLost>;

    /// Writes a line to the log.
    async fn log(&self, level: LogLevel, message: String) -> Result<(), LeaseLost>;

    /// Records why the attempt waits, such as a full disk; `None` when it continues. For display,
    /// so it is not in the log.
    fn note_stall(&self, why: Option<&str>) {
        let _ = why;
    }

    /// Writes the result of a tool call or of a model's answer to the log.
    async fn report(&self, report: Report) -> Result<(), LeaseLost>;

    /// Reserves part of the run's budget, in addition to this attempt's reservations. The unspent
    /// part is freed by its outcome, or by a report of usage. With `least` the amounts are an
    /// estimate: this waits for others to release budget, and takes the rest.
    async fn reserve(&self, amounts: Amounts, least: Option<Amounts>) -> Result<(), NotReserved>;
}

/// Why nothing was reserved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReserved {
    /// This process no longer holds the run.
    #[error("another process has taken over the run")]
    LeaseLost,
    /// The run's budget does not allow it.
    #[error(transparent)]
    Exhausted(Exhausted),
}

/// This process no longer holds the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another process has taken over the run")]
pub struct LeaseLost;

/// Accepts artifacts of an attempt: any number of bytes in bounded memory.
#[async_trait]
pub trait ArtifactSink: Send + Sync {
    /// Stores a file's bytes as blobs of the tenant and describes them. The completion (or failure)
    /// of the attempt announces the artifact.
    async fn keep_file(
        &self,
        artifact_type: &str,
        media_type: &str,
        path: &std::path::Path,
    ) -> Result<Artifact, NodeError>;

    /// Stores bytes that are already in memory.
    async fn keep_bytes(
        &self,
        artifact_type: &str,
        media_type: &str,
        bytes: Vec<u8>,
    ) -> Result<Artifact, NodeError>;
}

/// The ports of this process.
#[derive(Clone)]
pub struct Ports {
    /// Starts processes and ensures that none outlives the engine unnoticed.
    pub supervisor: crate::supervisor::Supervisor,
    /// Sends HTTP requests through the SSRF guard.
    pub outbound: crate::outbound::Outbound,
    /// Resolves secrets by reference.
    pub secrets: Arc<dyn Secrets>,
    /// Models and tools nodes may use.
    pub models: Arc<crate::models::Providers>,
    /// Keys for sealing sensitive values.
    pub keyring: Arc<dyn crate::keyring::Keyring>,
    /// The base folder for relative paths of process nodes.
    pub workdir: PathBuf,
    /// The rules for running programs.
    pub programs: Arc<crate::programs::Programs>,
}

/// Resolves secrets by reference. A value goes to the node only; the driver teaches the redactor
/// every value that is resolved.
#[async_trait]
pub trait Secrets: Send + Sync {
    /// The value of a reference in a run of this owner.
    async fn resolve(&self, owner: &Owner, reference: &str) -> Result<String, NodeError>;

    /// The scopes of stored secrets; empty without a secret store.
    fn scopes(&self) -> &'static [Scope] {
        &[]
    }

    /// Whether any tenant has a secret of this name.
    fn has(&self, _name: &str) -> bool {
        false
    }

    /// A text with all secrets resolved so far redacted.
    fn redacted(&self, text: &str) -> String {
        text.to_owned()
    }

    /// Redacts a value as its event in the log is redacted.
    fn redact(&self, value: &mut Value) {
        let _ = value;
    }

    /// The same for a text that arrives in chunks.
    fn stream(&self) -> RedactedStream {
        Redactor::default().stream()
    }

    /// Records a secret that was obtained another way and is about to be used.
    ///
    /// # Errors
    /// If it cannot be kept out of the log; then it must not be used.
    fn learn(&self, reference: &str, value: &str) -> Result<(), NodeError> {
        let _ = (reference, value);
        Ok(())
    }
}

/// The shortest value of an inherited variable that is redacted.
pub(crate) const MIN_INHERITED_BYTES: usize = 8;

/// Records a variable that a program inherits if its name is that of a secret or its value is an
/// address with one: the program's output is redacted. Values too short to be distinctive, and
/// documents, are not redacted.
pub(crate) fn learn_inherited(ports: &Ports, name: &str, value: &str) {
    for (name, secret) in secrets_of_variable(name, value) {
        if secret.len() >= MIN_INHERITED_BYTES {
            let _ = ports.secrets.learn(&name, &secret);
        }
    }
}

/// The variable with the key of a program's effect.
pub(crate) const EFFECT_KEY: &str = "WF_EFFECT_KEY";

/// The longest time an attempt has to stop before its process group is killed.
pub const STOP_GRACE: Duration = Duration::from_secs(5);
