//! Commands of a run stream: requests and reports.
//!
//! All random or timed values and all input from outside are observations in commands. `decide`
//! adds none of its own, so that a replay of the recorded observations decides the same events.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::audit::Actor;
use crate::ids::{AttemptId, InterruptId, MessageId, StreamId};
use crate::json::is_default;
use crate::run::InterruptKind;
use crate::run::capacity::Capacity;
use crate::run::cause::{Cause, CausedBy, Driving, Found, Start};
use crate::run::event::{
    Artifact, ChildStatus, DivergenceKind, DrainPolicy, Event, LogLevel, NodeError, OutputChannel,
    RunEvent, Usage,
};
use crate::run::report::Report;
use crate::time::Timestamp;

/// A command with the outbox message that delivered it, if any.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// The command.
    pub command: Command,
    /// The message id; a run drops one that it has seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// Whether the sender drives the run.
    #[serde(default, skip_serializing_if = "Driving::is_here")]
    pub driving: Driving,
}

impl From<Command> for Envelope {
    fn from(command: Command) -> Self {
        Self {
            command,
            message: None,
            driving: Driving::Here,
        }
    }
}

/// A command to a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub enum Command {
    /// Create the run. Only for a stream that does not exist.
    Create(Create),
    /// Start or continue ready nodes. Sent by the holder.
    Advance,
    /// A new holder found attempts in flight whose holder is gone.
    TakeOver {
        /// Those that must not be repeated, by their node type's repeat policy.
        unrepeatable: Vec<AttemptId>,
    },
    /// An attempt ended.
    Finish {
        attempt: AttemptId,
        outcome: Outcome,
    },
    /// An attempt wrote output.
    Output {
        attempt: AttemptId,
        /// Which output.
        channel: OutputChannel,
        /// The text.
        chunk: String,
        /// This output ends here.
        is_last: bool,
        /// Finish reason, usage and the like.
        meta: Option<Value>,
    },
    /// An attempt logged a line.
    Log {
        attempt: AttemptId,
        level: LogLevel,
        /// The line.
        message: String,
    },
    /// An attempt reports.
    Report { report: Box<Report> },
    /// An attempt reserves a part of the run's budget before it spends it.
    Reserve {
        attempt: AttemptId,
        /// Amount by dimension (`tokens`, `costMicroUsd`, `toolCalls`, …).
        amounts: BTreeMap<String, u64>,
        /// For an estimate: the minimum it needs. If the amounts are not available, it gets the
        /// rest.
        least: Option<BTreeMap<String, u64>>,
    },
    /// A named timer is due.
    Fire {
        /// Its name.
        timer: String,
    },
    /// Cancel the run.
    Cancel {
        reason: Option<String>,
        by: Option<Actor>,
        /// The parent whose cancellation cascades.
        parent: Option<StreamId>,
    },
    /// Pause the run.
    Pause {
        reason: Option<String>,
        /// How attempts in flight are treated.
        policy: DrainPolicy,
    },
    /// Resume after a pause.
    Resume { reason: Option<String> },
    /// Answer an open interrupt.
    Resolve {
        interrupt: InterruptId,
        /// The answer.
        value: Value,
        /// The answering person.
        by: Option<String>,
        /// Their capacity.
        #[serde(default)]
        capacity: Capacity,
    },
    /// A signal arrives.
    Signal {
        /// The name that a node waits for, now or later.
        name: String,
        /// The sender's id of it.
        id: String,
        /// Its content.
        payload: Value,
    },
    /// The definition of a node's child run was looked up.
    Dispatch {
        /// The attempt that starts the child.
        attempt: AttemptId,
        /// The result.
        found: Found,
    },
    /// A child run ended.
    ChildSettled {
        child: StreamId,
        /// Its end.
        status: ChildStatus,
        /// Its variables at the end.
        variables: Map<String, Value>,
        outputs: Map<String, Value>,
        error: Option<NodeError>,
        /// Its spending from the budget it was given.
        #[serde(default)]
        spent: BTreeMap<String, u64>,
    },
    /// A child run started or stopped waiting.
    ChildReported {
        child: StreamId,
        /// Its status while it waits.
        status: Option<String>,
        /// The length of its log.
        seq: u64,
    },
    /// Continue from a copied prefix as a separate run. Only for a stream whose header marks it as
    /// a branch, and once.
    Fork {
        source: StreamId,
        /// The sequence it was forked at.
        at: u64,
        /// Changes against the source.
        overlay: Overlay,
    },
    /// A replay differs from its source.
    Diverge {
        source: StreamId,
        /// The first sequence that differs.
        at: u64,
        /// The kind of difference.
        kind: DivergenceKind,
        /// The type of the event there.
        point: Option<String>,
    },
    /// A replay reaches a wait before an effect that its source never had.
    FailReplay,
}

/// Changes of a branch against its source. Absent fields stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Overlay {
    /// Tags.
    pub tags: Option<Vec<String>>,
    /// Metadata.
    pub metadata: Option<Map<String, Value>>,
    /// Overlay of settings.
    pub configurable: Option<Map<String, Value>>,
}

impl Overlay {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The settings of a new run, in addition to the header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Create {
    /// Inputs, redacted.
    pub inputs: Map<String, Value>,
    /// The face that received the request.
    pub transport: String,
    /// The engine's version.
    pub engine_version: u32,
    /// Tags.
    pub tags: Vec<String>,
    /// Metadata.
    pub metadata: Map<String, Value>,
    /// Overlay of settings.
    pub configurable: Map<String, Value>,
    /// Whether its creator drives it at once.
    pub start: Start,
    /// The id of the creating request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Whether the log names the limits of the run's budget, if it has one, and later what is
    /// spent of it. Logs of earlier versions do not.
    #[serde(default, skip_serializing_if = "is_default")]
    pub announces_budget: bool,
}

impl Create {
    /// A run with inputs and defaults for the rest.
    pub fn new(inputs: Map<String, Value>, transport: &str, start: Start) -> Self {
        Self {
            inputs,
            transport: transport.into(),
            engine_version: crate::ENGINE_VERSION,
            tags: Vec::new(),
            metadata: Map::new(),
            configurable: Map::new(),
            start,
            request_id: None,
            announces_budget: true,
        }
    }
}

/// How an attempt ended, as observed by the process that ran it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// It succeeded.
    Completed(Completion),
    /// It failed.
    Failed {
        /// The error.
        error: NodeError,
        /// Artifacts it created nevertheless.
        #[serde(default)]
        artifacts: Vec<Artifact>,
        /// Its usage nevertheless.
        #[serde(default)]
        usage: Vec<Usage>,
        /// Its spending from the reserved budget, by dimension.
        #[serde(default)]
        spent: BTreeMap<String, u64>,
    },
    /// It has left its work to an outside party, whose signal of this name reports the end with
    /// `{"outputs": {…}}` or `{"error": {"code": …, "message": …}}`.
    Waits {
        /// The name of the signal.
        key: String,
        /// A description of the wait, for people.
        data: Value,
    },
    /// It was stopped because the run is ending.
    Stopped,
}

impl Outcome {
    /// A failure without artifacts and usage.
    pub fn failed(error: NodeError) -> Self {
        Self::Failed {
            error,
            artifacts: Vec::new(),
            usage: Vec::new(),
            spent: BTreeMap::new(),
        }
    }

    /// A completion with outputs only.
    pub fn completed(outputs: Map<String, Value>) -> Self {
        Self::Completed(Completion {
            outputs,
            ..Completion::default()
        })
    }
}

/// The result of a successful attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Completion {
    /// Outputs by port.
    pub outputs: Map<String, Value>,
    /// Variables to set.
    pub variables: Map<String, Value>,
    /// Channel writes, in order.
    pub channel_writes: Vec<ChannelWrite>,
    /// Created artifacts.
    pub artifacts: Vec<Artifact>,
    /// Usage of its calls.
    pub usage: Vec<Usage>,
    /// Its spending from the reserved budget, by dimension.
    pub spent: BTreeMap<String, u64>,
}

/// A write to a channel by a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChannelWrite {
    /// The channel.
    pub channel: String,
    /// The write input.
    pub value: Value,
}

impl Command {
    /// The cause that is stored with this command's batch. For `Finish` the decision adds the
    /// number of observed leading events.
    pub(crate) fn cause(&self) -> CausedBy {
        match self {
            Self::Create(create) => CausedBy::Create {
                start: create.start,
                request_id: create.request_id.clone(),
            },
            Self::Advance => CausedBy::Advance,
            Self::TakeOver { unrepeatable } => CausedBy::TakeOver {
                unrepeatable: unrepeatable.clone(),
            },
            Self::Finish { attempt, .. } => CausedBy::Finish {
                attempt: attempt.clone(),
                observed: 0,
            },
            Self::Output { .. } => CausedBy::Output,
            Self::Log { .. } => CausedBy::Log,
            Self::Report { .. } => CausedBy::Report,
            Self::Reserve { .. } => CausedBy::Reserve,
            Self::Fire { timer } => CausedBy::Fire {
                timer: timer.clone(),
            },
            Self::Cancel { reason, by, parent } => CausedBy::Cancel {
                reason: reason.clone(),
                cancelled_by: by.as_ref().map(|by| by.principal.clone()),
                issuer: by.as_ref().and_then(|by| by.issuer.clone()),
                request_id: by.as_ref().and_then(|by| by.request_id.clone()),
                parent: parent.clone(),
            },
            Self::Pause { reason, policy } => CausedBy::Pause {
                reason: reason.clone(),
                policy: *policy,
            },
            Self::Resume { reason } => CausedBy::Resume {
                reason: reason.clone(),
            },
            Self::Resolve { capacity, .. } => CausedBy::Resolve {
                capacity: capacity.clone(),
            },
            Self::Signal { .. } => CausedBy::Signal,
            Self::Dispatch { attempt, found } => CausedBy::Dispatch {
                attempt: attempt.clone(),
                found: found.clone(),
            },
            Self::ChildSettled { .. } => CausedBy::ChildSettled,
            Self::ChildReported { .. } => CausedBy::ChildReported,
            Self::Fork { .. } => CausedBy::Fork,
            Self::Diverge { .. } => CausedBy::Diverge,
            Self::FailReplay => CausedBy::FailReplay,
        }
    }

    /// Rebuilds the command of a recorded batch. `None` if the batch does not begin with a cause,
    /// or lacks the events that its cause requires: then `decide` did not write the log.
    pub fn from_log(batch: &[Event]) -> Option<(Envelope, Timestamp)> {
        let Event {
            at, cause, body, ..
        } = batch.first()?.clone();
        let Cause {
            command: by,
            message,
            driving,
        } = cause?;
        let command = match (by, body) {
            (
                CausedBy::Create { start, request_id },
                RunEvent::RunStarted {
                    inputs,
                    transport,
                    engine_version,
                    tags,
                    metadata,
                    configurable,
                    ..
                },
            ) => Self::Create(Create {
                inputs,
                transport,
                engine_version,
                tags,
                metadata,
                configurable,
                start,
                request_id,
                announces_budget: batch
                    .get(1)
                    .is_some_and(|next| matches!(next.body, RunEvent::BudgetAnnounced { .. })),
            }),
            (CausedBy::Advance, _) => Self::Advance,
            (CausedBy::TakeOver { unrepeatable }, _) => Self::TakeOver { unrepeatable },
            (CausedBy::Finish { attempt, observed }, _) => {
                let outcome = outcome_from_log(batch.get(..observed as usize)?)?;
                Self::Finish { attempt, outcome }
            }
            (
                CausedBy::Output,
                RunEvent::OutputChunk {
                    node_id: node,
                    visit,
                    attempt,
                    channel,
                    chunk,
                    is_last,
                    meta,
                    // Part of the state.
                    restart: _,
                },
            ) => Self::Output {
                attempt: AttemptId {
                    node,
                    visit,
                    attempt,
                },
                channel,
                chunk,
                is_last,
                meta,
            },
            (
                CausedBy::Log,
                RunEvent::LogAppended {
                    level,
                    message,
                    attempt,
                    ..
                },
            ) => Self::Log {
                attempt: attempt?,
                level,
                message,
            },
            (CausedBy::Report, _) => Self::Report {
                report: Box::new(Report::of_batch(batch)?),
            },
            (CausedBy::Reserve, RunEvent::BudgetReserved { attempt, amounts }) => Self::Reserve {
                attempt,
                amounts,
                // The granted amounts were available.
                least: None,
            },
            (CausedBy::Fire { timer }, _) => Self::Fire { timer },
            (
                CausedBy::Cancel {
                    reason,
                    cancelled_by,
                    issuer,
                    request_id,
                    parent,
                },
                _,
            ) => Self::Cancel {
                reason,
                by: cancelled_by.map(|principal| Actor {
                    principal,
                    issuer,
                    request_id,
                }),
                parent,
            },
            (CausedBy::Pause { reason, policy }, _) => Self::Pause { reason, policy },
            (CausedBy::Resume { reason }, _) => Self::Resume { reason },
            (
                CausedBy::Resolve { capacity },
                RunEvent::InterruptResolved {
                    interrupt_id: interrupt,
                    resume_value: value,
                    resolved_by: by,
                    ..
                },
            ) => Self::Resolve {
                interrupt,
                value,
                by,
                capacity,
            },
            // An answer that left its gate open.
            (
                CausedBy::Resolve { capacity },
                RunEvent::ApprovalGranted {
                    interrupt_id, vote, ..
                }
                | RunEvent::ApprovalRejected {
                    interrupt_id, vote, ..
                }
                | RunEvent::ApprovalOverridden {
                    interrupt_id, vote, ..
                }
                | RunEvent::ApprovalAsked {
                    interrupt_id, vote, ..
                },
            ) => Self::Resolve {
                interrupt: interrupt_id,
                value: vote.resume_value?,
                by: vote.resolved_by,
                capacity,
            },
            (CausedBy::Signal, RunEvent::SignalReceived { name, id, payload }) => {
                Self::Signal { name, id, payload }
            }
            (CausedBy::Dispatch { attempt, found }, _) => Self::Dispatch { attempt, found },
            (
                CausedBy::ChildSettled,
                RunEvent::ChildSettled {
                    child_run_id: child,
                    status,
                    variables,
                    outputs,
                    error,
                    spent,
                },
            ) => Self::ChildSettled {
                child,
                status,
                variables,
                outputs,
                error,
                spent,
            },
            (
                CausedBy::ChildReported,
                RunEvent::ChildReported {
                    child_run_id: child,
                    status,
                    child_sequence: seq,
                },
            ) => Self::ChildReported { child, status, seq },
            (
                CausedBy::Fork,
                RunEvent::RunForked {
                    source_run_id: source,
                    from_sequence: at,
                    tags,
                    metadata,
                    configurable,
                },
            ) => Self::Fork {
                source,
                at,
                overlay: Overlay {
                    tags,
                    metadata,
                    configurable,
                },
            },
            (
                CausedBy::Diverge,
                RunEvent::ReplayDiverged {
                    source_run_id: source,
                    at_sequence: at,
                    divergence_kind: kind,
                    divergence_point: point,
                },
            ) => Self::Diverge {
                source,
                at,
                kind,
                point,
            },
            (CausedBy::FailReplay, _) => Self::FailReplay,
            _ => return None,
        };
        let envelope = Envelope {
            command,
            message,
            driving,
        };
        Some((envelope, at))
    }
}

/// Rebuilds an outcome from the leading events of its batch.
fn outcome_from_log(observed: &[Event]) -> Option<Outcome> {
    let (last, before) = observed.split_last()?;
    let mut completion = Completion::default();
    for event in before {
        match &event.body {
            RunEvent::ArtifactCreated { artifact, .. } => {
                completion.artifacts.push(artifact.clone());
            }
            RunEvent::ProviderUsage {
                usage,
                attempt: None,
                ..
            } => completion.usage.push(usage.clone()),
            RunEvent::BudgetSettled { spent, .. } => completion.spent = spent.clone(),
            // They follow from the error and the spending.
            RunEvent::CapBreached { .. }
            | RunEvent::BudgetExhausted { .. }
            | RunEvent::BudgetThresholdCrossed { .. } => {}
            RunEvent::VariableChanged { name, next, .. } => {
                completion.variables.insert(name.clone(), next.clone());
            }
            RunEvent::ChannelWritten { channel, value, .. } => {
                completion.channel_writes.push(ChannelWrite {
                    channel: channel.clone(),
                    value: value.clone(),
                });
            }
            _ => return None,
        }
    }
    match &last.body {
        RunEvent::NodeCompleted { outputs, .. } => {
            completion.outputs = outputs.clone();
            Some(Outcome::Completed(completion))
        }
        RunEvent::NodeRetried {
            last_error: error, ..
        }
        | RunEvent::NodeFailed { error, .. } => Some(Outcome::Failed {
            error: error.clone(),
            artifacts: completion.artifacts,
            usage: completion.usage,
            spent: completion.spent,
        }),
        RunEvent::InterruptRequested {
            kind: InterruptKind::ExternalEvent,
            key,
            data,
            ..
        } => Some(Outcome::Waits {
            key: key.clone(),
            data: data.clone(),
        }),
        // The question about the failure was asked.
        RunEvent::InterruptRequested { data, .. } => Some(Outcome::Failed {
            error: serde_json::from_value(data.get("error")?.clone()).ok()?,
            artifacts: completion.artifacts,
            usage: completion.usage,
            spent: completion.spent,
        }),
        RunEvent::NodeCancelled { .. } => Some(Outcome::Stopped),
        _ => None,
    }
}
