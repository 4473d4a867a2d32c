//! Forks: runs that begin with a copied part of another run's log.
//!
//! A **branch** continues independently from there: attempts in flight start over, effects happen
//! again. A **replay** decides the rest of its source's log again, with the recorded outcomes,
//! answers and times; it has no effects and no worker drives it. Nodes without effects are computed
//! again ([`crate::recompute`]).
//!
//! **Where a log is cut.** Events below the cut are copied byte for byte, with the same sequences
//! and the same hash chain. A branch is cut at the requested place, also between the steps of one
//! batch: recorded steps stay, and the fork decides the following ones. Two things are not cut
//! apart. The ending of a run (a breached limit, nodes cancelled because the run ends) is left out
//! as a whole, because a partial ending has no valid continuation. So is a partial step: a node's
//! writes and answers are not copied without the node's end, because the node starts over and would
//! write or ask again. A replay is cut at the beginning of the batch: the events of its first half
//! are decided again to the same bytes, and a batch is the smallest unit of decision.
//!
//! **How it is written.** A fork of ordinary length is one append. A longer one takes several.
//! Until the last one is durable, a branch is in the state [`Run::is_copying`]: it is not runnable,
//! has no timers, and rejects commands. A replay is never runnable. The process that makes a fork
//! of several appends holds it; an unfinished fork without a holder was cut off
//! ([`Run::is_forking`]).

mod chunk;
mod repeat;

use std::sync::Arc;

use crate::audit::Actor;
use crate::batch::{Batch, Record};
use crate::definition::Plan;
use crate::ids::{NodeId, Seq, StreamId, WorkflowId};
use crate::recompute::Recompute;
use crate::replay::{self, Divergence, ReplayError};
use crate::run::cause::Start;
use crate::run::{BadEvent, Command, Envelope, Overlay, Rejection, Run, RunEvent, decide};
use crate::stream::{DefinitionRef, ForkMode, Origin, Owner, Policy, StreamHeader};
use crate::time::Timestamp;
use crate::trace::TraceContext;
use crate::{ENGINE_VERSION, ENGINE_VERSIONS};
use chunk::Chunk;
use repeat::Repeat;

/// The order for a fork.
#[derive(Clone, Debug)]
pub struct NewFork {
    /// The id of the fork.
    pub stream: StreamId,
    /// Distinguishes a branch from one of the same id in another store; see
    /// [`StreamHeader::nonce`].
    pub nonce: Option<String>,
    /// Replay or branch.
    pub mode: ForkMode,
    /// Events of the source below this sequence are copied.
    pub at: Seq,
    /// Changes of a branch against its source.
    pub overlay: Overlay,
    /// Another definition for a branch. It keeps the nodes that the copied events name.
    pub definition: Option<(DefinitionRef, Arc<Plan>)>,
    /// Changes to how a branch is driven. A replay is not driven.
    pub policy: Option<Policy>,
    /// The span that the fork continues in: its creator's, never its source's.
    pub trace: Option<TraceContext>,
    /// The actor of a branch, if not the owner of its source. Credentials of one person must not be
    /// used by others who may fork their runs.
    pub by: Option<Actor>,
}

/// Why a fork cannot be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ForkError {
    /// The source has fewer events.
    #[error("{at} is past the end of the source's log, which has {len} events; use a lower number")]
    BeyondLog {
        /// The requested place.
        at: Seq,
        /// The length of the log.
        len: u64,
    },
    /// The run has ended before this place.
    #[error("the run ended with event {seq}; branch at {seq} or before")]
    Ended {
        /// The event that ended it.
        seq: Seq,
    },
    /// A replay repeats its source unchanged.
    #[error(
        "a replay cannot have another definition, or other tags, metadata or settings than its source"
    )]
    OverlayOnReplay,
    /// The definition is that of another workflow.
    #[error("the definition is of workflow `{given}`, the run is of `{wanted}`; keep its id")]
    OtherWorkflow {
        /// The workflow of the run.
        wanted: WorkflowId,
        /// The workflow of the definition.
        given: WorkflowId,
    },
    /// The definition lacks a node that the copied events name.
    #[error(
        "event {seq} is about node `{node}`, a {type_id}; keep it in the definition, or fork at {seq} or before"
    )]
    NodeMissing {
        /// The first event about it.
        seq: Seq,
        /// The node.
        node: NodeId,
        /// Its type.
        type_id: String,
    },
    /// The copied events cannot have happened by the definition.
    #[error("the definition does not allow event {}: {}; change less, or fork earlier", .0.seq, .0.what)]
    Unfit(BadEvent),
    /// The rules reject it.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The source's log is damaged.
    #[error(transparent)]
    Source(#[from] ReplayError),
}

impl From<BadEvent> for ForkError {
    fn from(bad: BadEvent) -> Self {
        Self::Source(bad.into())
    }
}

impl ForkError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BeyondLog { .. } => "fork_beyond_log",
            Self::Ended { .. } => "fork_at_end",
            Self::OverlayOnReplay => "validation_error",
            Self::OtherWorkflow { .. } | Self::NodeMissing { .. } | Self::Unfit(_) => {
                "fork_definition_unfit"
            }
            Self::Rejected(rejection) => rejection.code(),
            Self::Source(ReplayError::Diverged(_)) => "replay_diverged",
            Self::Source(_) => "source_damaged",
        }
    }
}

/// A fork under construction: returns its batches in order. Each must be durable before the next is
/// requested.
#[derive(Debug)]
pub struct Fork {
    source: StreamHeader,
    records: Vec<Record>,
    overlay: Overlay,
    /// Whether the definition is another one than the source's.
    is_edited: bool,
    now: Timestamp,
    /// The next record of the source.
    next: usize,
    stage: Stage,
    /// `None` only within a step.
    run: Option<Run>,
}

#[derive(Debug)]
enum Stage {
    Copying,
    Repeating(Repeat),
    Done,
}

impl Fork {
    /// Plans a fork of a run from its whole log. `now` is the time of the fork.
    ///
    /// # Errors
    /// A cut that does not exist, or an overlay on a replay.
    pub fn new(
        source: StreamHeader,
        plan: Arc<Plan>,
        records: Vec<Record>,
        new: NewFork,
        now: Timestamp,
    ) -> Result<Self, ForkError> {
        let is_changed = !new.overlay.is_empty() || new.definition.is_some();
        if new.mode == ForkMode::Replay && is_changed {
            return Err(ForkError::OverlayOnReplay);
        }
        // A branch from the start is created anew, by the rules of this engine.
        let is_anew = new.mode == ForkMode::Branch && new.at == 0;
        if let Some(wrote) = source
            .engine_version
            .filter(|wrote| wrote > ENGINE_VERSIONS.end())
            && !is_anew
        {
            return Err(Rejection::NewerEngine { wrote }.into());
        }
        let seq = cut(&source, &records, new.mode, new.at)?;
        let header = header(&source, &new, seq, now);
        let is_edited = new.definition.is_some();
        let plan = match new.definition {
            Some((_, edited)) => {
                keeps_nodes(&records[..seq as usize], &plan, &edited)?;
                edited
            }
            None => plan,
        };
        Ok(Self {
            source,
            records,
            overlay: new.overlay,
            is_edited,
            now,
            next: 0,
            stage: Stage::Copying,
            run: Some(Run::unborn(Arc::new(header), plan)),
        })
    }

    /// The header of the fork.
    pub fn header(&self) -> &Arc<StreamHeader> {
        &self.run().header
    }

    /// The state of the fork after the batches returned so far.
    pub fn run(&self) -> &Run {
        self.run.as_ref().expect("put back by every step")
    }

    /// Where a replay diverged from its source, once it has.
    pub fn divergence(&self) -> Option<&Divergence> {
        match &self.stage {
            Stage::Repeating(repeat) => repeat.divergence(),
            Stage::Copying | Stage::Done => None,
        }
    }

    /// Whether the batches returned so far are all of it.
    pub fn is_whole(&self) -> bool {
        match &self.stage {
            Stage::Copying => false,
            Stage::Done => true,
            // A replay always ends.
            Stage::Repeating(_) => self.run().is_settled(),
        }
    }

    /// The next batch to append; `None` when the fork is complete. A replay recomputes outcomes
    /// with `nodes`.
    ///
    /// # Errors
    /// A damaged source, or a rejected overlay. The fork cannot be finished then.
    pub fn next_batch(&mut self, nodes: &dyn Recompute) -> Result<Option<Batch>, ForkError> {
        let mut run = self.run.take().expect("put back by every step");
        let mut chunk = Chunk::at(&run);
        let cut = cut_of(&run);
        if matches!(self.stage, Stage::Copying) {
            while self.next < cut && !chunk.is_full() {
                let record = &self.records[self.next];
                let event = match replay::fold_record(&mut run, record) {
                    Err(ReplayError::Bad(bad)) if self.is_edited => {
                        return Err(ForkError::Unfit(bad));
                    }
                    event => event?,
                };
                chunk.copy(record, &event);
                self.next += 1;
            }
            if self.next < cut {
                let batch = chunk.seal(&run);
                self.run = Some(run);
                return Ok(Some(batch));
            }
            self.stage = match mode_of(&run) {
                ForkMode::Replay => Stage::Repeating(Repeat::default()),
                ForkMode::Branch => {
                    run = self.leave(run, &mut chunk)?;
                    Stage::Done
                }
            };
        }
        if let Stage::Repeating(repeat) = &mut self.stage {
            let source = repeat::Source {
                header: &self.source,
                records: &self.records,
                nodes,
            };
            run = repeat.fill(run, source, &mut self.next, &mut chunk)?;
        }
        let batch = (!chunk.is_empty()).then(|| chunk.seal(&run));
        self.run = Some(run);
        Ok(batch)
    }

    /// The last step of a branch: its own decision.
    fn leave(&self, run: Run, chunk: &mut Chunk) -> Result<Run, ForkError> {
        let command = match cut_of(&run) {
            0 => self.create()?,
            at => Command::Fork {
                source: self.source.stream.clone(),
                at: at as u64,
                overlay: self.overlay.clone(),
            },
        };
        let decided = decide(run, &command.into(), self.now)
            .map_err(|refused| ForkError::Rejected(refused.rejection))?;
        Ok(chunk.take(decided))
    }

    /// Nothing is copied: the run is created anew with its source's inputs.
    fn create(&self) -> Result<Command, ForkError> {
        let first = replay::batch_at(&self.records, 0)?;
        let Some((
            Envelope {
                command: Command::Create(mut create),
                ..
            },
            _,
        )) = first.command()
        else {
            return Err(ForkError::Rejected(Rejection::Unborn));
        };
        let overlay = self.overlay.clone();
        create.tags = overlay.tags.unwrap_or(create.tags);
        create.metadata = overlay.metadata.unwrap_or(create.metadata);
        create.configurable = overlay.configurable.unwrap_or(create.configurable);
        create.engine_version = ENGINE_VERSION;
        create.start = Start::WhenClaimed;
        Ok(Command::Create(create))
    }
}

fn mode_of(run: &Run) -> ForkMode {
    if run.is_replay() {
        ForkMode::Replay
    } else {
        ForkMode::Branch
    }
}

fn cut_of(run: &Run) -> usize {
    let origin = run.header.origin.as_ref();
    origin.map_or(0, |origin| origin.seq as usize)
}

fn header(source: &StreamHeader, new: &NewFork, seq: Seq, now: Timestamp) -> StreamHeader {
    let (root, parent) = match new.mode {
        ForkMode::Replay => (source.root().clone(), source.parent.clone()),
        ForkMode::Branch => (new.stream.clone(), None),
    };
    let engine_version = match (new.mode, seq) {
        // Nothing is copied: the run is created anew.
        (ForkMode::Branch, 0) => Some(ENGINE_VERSION),
        _ => source.engine_version,
    };
    let owner = match (new.mode, &new.by) {
        (ForkMode::Branch, Some(by)) => Owner {
            principal: Some(by.principal.clone()),
            issuer: by.issuer.clone(),
            ..source.owner.clone()
        },
        _ => source.owner.clone(),
    };
    let nonce = match new.mode {
        ForkMode::Replay => source.nonce.clone(),
        ForkMode::Branch => new.nonce.clone(),
    };
    StreamHeader {
        stream: new.stream.clone(),
        nonce,
        owner,
        created_at: now,
        definition: match &new.definition {
            Some((definition, _)) => Some(definition.clone()),
            None => source.definition.clone(),
        },
        origin: Some(Origin {
            source: source.stream.clone(),
            seq,
            mode: new.mode,
            root,
        }),
        parent,
        trace: new.trace.clone(),
        policy: match new.mode {
            // The creator of the source chose the address; the creator of the branch did not.
            ForkMode::Branch => Policy {
                question_notices: None,
                ..new.policy.as_ref().unwrap_or(&source.policy).clone()
            },
            ForkMode::Replay => source.policy.clone(),
        },
        engine_version,
        predecessor: None,
        ..source.clone()
    }
}

/// The sequence at which a fork leaves its source, for the requested one.
fn cut(
    source: &StreamHeader,
    records: &[Record],
    mode: ForkMode,
    at: Seq,
) -> Result<Seq, ForkError> {
    let len = records.len() as u64;
    // A branch may continue after the last event; a replay has to decide something again.
    let is_behind = at == len && mode == ForkMode::Replay;
    if at > len || is_behind || len == 0 {
        return Err(ForkError::BeyondLog { at, len });
    }
    let event = |seq: Seq| replay::read(seq, &records[seq as usize]);
    let mut seq = at;
    match mode {
        ForkMode::Replay => {
            while seq > 0 && seq < len && event(seq)?.cause.is_none() {
                seq -= 1;
            }
            // Events that the source itself copied may have been decided under another root; they
            // are not decided again.
            seq = seq.max(replay::own_start(source));
        }
        ForkMode::Branch => {
            if seq > 0 && ends(&event(seq - 1)?.body) {
                return Err(ForkError::Ended { seq: seq - 1 });
            }
            while seq > 0 && seq < len {
                let (before, behind) = (event(seq - 1)?.body, event(seq)?);
                let is_one_batch = behind.cause.is_none();
                if !(is_ending(&before) || is_one_batch && is_half_a_step(&before)) {
                    break;
                }
                seq -= 1;
            }
        }
    }
    Ok(seq)
}

/// Checks that an edited definition has every node of these events, with its type.
fn keeps_nodes(records: &[Record], plan: &Plan, edited: &Plan) -> Result<(), ForkError> {
    if plan.workflow != edited.workflow {
        return Err(ForkError::OtherWorkflow {
            wanted: plan.workflow.clone(),
            given: edited.workflow.clone(),
        });
    }
    let type_of = |plan: &Plan, node: &NodeId| {
        let node = plan.node_ix(node.as_str())?;
        Some(plan.node(node).type_id.clone())
    };
    for (seq, record) in (0..).zip(records) {
        let event = replay::read(seq, record)?;
        let Some(node) = event.body.node() else {
            continue;
        };
        match type_of(plan, node) {
            Some(type_id) if type_of(edited, node).as_ref() != Some(&type_id) => {
                return Err(ForkError::NodeMissing {
                    seq,
                    node: node.clone(),
                    type_id,
                });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether an event ends a run.
fn ends(event: &RunEvent) -> bool {
    matches!(
        event,
        RunEvent::RunCompleted { .. } | RunEvent::RunFailed { .. } | RunEvent::RunCancelled { .. }
    )
}

/// Whether an event, followed by more of its batch, is part of a step that the node repeats as a
/// whole if its end is missing.
fn is_half_a_step(event: &RunEvent) -> bool {
    use RunEvent as E;
    matches!(
        event,
        // A node's writes before its end is recorded.
        E::VariableChanged { .. }
            | E::ChannelWritten { .. }
            | E::ArtifactCreated { .. }
            | E::ProviderUsage { .. }
            | E::BudgetSettled { .. }
            | E::CapBreached { .. }
            | E::BudgetThresholdCrossed { .. }
            | E::BudgetExhausted { .. }
            // An answer, before the node has continued with it.
            | E::InterruptResolved { .. }
            | E::ApprovalReceived { .. }
            | E::ApprovalGranted { .. }
            | E::ApprovalRejected { .. }
            | E::ApprovalOverridden { .. }
            | E::ApprovalAsked { .. }
            | E::ClarificationResolved { .. }
            | E::NodeResumed { .. }
            // The steps of a decision and of its workers' results.
            | E::AgentDecided { .. }
            | E::AgentHandedOff { .. }
            | E::OrchestratorDecided { .. }
            | E::ConfidenceEscalated { .. }
            | E::ChainStepped { .. }
            | E::FannedOut { .. }
            | E::Joined { .. }
            | E::ChildSettled { .. }
    )
}

/// Whether an event comes between the reason for the run's end and the end itself.
fn is_ending(event: &RunEvent) -> bool {
    match event {
        RunEvent::CapBreached { kind, .. } => kind.ends_the_run(),
        RunEvent::LoopbackLimited { .. } | RunEvent::RunDeadLettered { .. } => true,
        // "stopped" was observed of an attempt while the run was already stopping.
        RunEvent::NodeCancelled { reason, .. } => reason != "stopped",
        _ => false,
    }
}
