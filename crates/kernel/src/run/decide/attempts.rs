//! Reports of attempts, and attempts whose holder was lost.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Decision;
use crate::definition::{NodeIx, NodeKind, Reducer};
use crate::ids::AttemptId;
use crate::limits;
use crate::problem::quoted;
use crate::run::budget::{self, Amounts, NotNow};
use crate::run::channel;
use crate::run::command::{ChannelWrite, Completion, Outcome};
use crate::run::event::{Artifact, CapKind, LogLevel, NodeError, OutputChannel, RunEvent, Usage};
use crate::run::rejection::Rejection;
use crate::run::report::Report;
use crate::run::scope;
use crate::run::size::{json_size, size};
use crate::run::state::NodeStatus;

impl Decision {
    /// The node of an attempt in flight.
    fn live(&self, attempt: &AttemptId) -> Result<NodeIx, Rejection> {
        let ix = self
            .run
            .plan
            .node_ix(attempt.node.as_str())
            .ok_or(Rejection::StaleAttempt)?;
        let node = &self.facts().nodes[ix.index()];
        match node.status {
            NodeStatus::InFlight { attempt: n, .. }
                if n == attempt.attempt && node.visit == attempt.visit =>
            {
                Ok(ix)
            }
            _ => Err(Rejection::StaleAttempt),
        }
    }

    pub(super) fn finish(
        &mut self,
        attempt: &AttemptId,
        outcome: &Outcome,
    ) -> Result<(), Rejection> {
        let ix = self.live(attempt)?;
        if self.run.plan.node(ix).kind != NodeKind::Work {
            return Err(Rejection::StaleAttempt);
        }
        match outcome {
            Outcome::Completed(completion) => {
                self.report(
                    ix,
                    attempt,
                    &completion.artifacts,
                    &completion.usage,
                    &completion.spent,
                );
                match self.accept(ix, completion) {
                    Ok(()) => self.complete(ix, completion.outputs.clone(), None),
                    Err(error) => self.fail_attempt(ix, error),
                }
            }
            Outcome::Failed {
                error,
                artifacts,
                usage,
                spent,
            } => {
                self.report(ix, attempt, artifacts, usage, spent);
                self.fail_attempt(ix, error.clone());
            }
            Outcome::Waits { key, data } if !self.is_stopping() => {
                self.wait_outside(ix, key, data)?;
            }
            // A stopping run has no new waits: it ends with its attempts in flight. Every engine
            // version decides so. In a log that differs, a run ended around a waiting node, which
            // `check` rejects.
            Outcome::Stopped | Outcome::Waits { .. } => {
                if !self.is_stopping() {
                    return Err(Rejection::StaleAttempt);
                }
                self.write_off(ix);
                self.cancel_node(ix, "stopped");
                self.end_observation();
            }
        }
        self.conclude();
        Ok(())
    }

    /// Emits an attempt's artifacts, usage and spending, for any outcome.
    fn report(
        &mut self,
        ix: NodeIx,
        attempt: &AttemptId,
        artifacts: &[Artifact],
        usage: &[Usage],
        spent: &Amounts,
    ) {
        for artifact in artifacts {
            let (mut artifact, node_id) = (artifact.clone(), self.node_id(ix));
            artifact.size = artifact.size.min(limits::MAX_COUNT);
            self.emit(RunEvent::ArtifactCreated { artifact, node_id });
        }
        for usage in usage {
            let (usage, node_id) = (usage.countable(), self.node_id(ix));
            self.emit(RunEvent::ProviderUsage {
                usage,
                node_id,
                attempt: None,
            });
        }
        let is_reserved = self
            .facts()
            .budget
            .reserved
            .contains_key(&attempt.to_string());
        if is_reserved || !spent.is_empty() {
            let (attempt, spent) = (attempt.clone(), budget::countable(spent));
            self.emit(RunEvent::BudgetSettled { attempt, spent });
        }
    }

    /// Applies the variables and channel writes of a completion; nothing is emitted unless all of
    /// them are allowed.
    fn accept(&mut self, ix: NodeIx, completion: &Completion) -> Result<(), NodeError> {
        let too_large = json_size(&completion.outputs) > limits::MAX_EVENT_BYTES / 2
            || completion
                .variables
                .values()
                .chain(completion.channel_writes.iter().map(|write| &write.value))
                .any(|value| size(value) > limits::MAX_EVENT_BYTES / 2);
        if too_large {
            return Err(NodeError::new(
                "output_too_large",
                "the node gave more than an event holds; write it to a file and keep that as an \
                 artifact",
            )
            .fatal());
        }
        self.check_variables(completion.variables.keys().map(String::as_str))?;
        self.check_writes(ix, &completion.channel_writes)?;
        for (name, next) in &completion.variables {
            let (name, next, node_id) = (name.clone(), next.clone(), Some(self.node_id(ix)));
            self.emit(RunEvent::VariableChanged {
                name,
                next,
                node_id,
            });
        }
        self.write_channels(ix, &completion.channel_writes)
    }

    /// Whether a node may make all these writes, one after another.
    pub(super) fn check_writes(
        &self,
        ix: NodeIx,
        writes: &[ChannelWrite],
    ) -> Result<(), NodeError> {
        let mut after = BTreeMap::new();
        for write in writes {
            let current = after
                .get(&write.channel)
                .or(self.facts().channels.get(&write.channel));
            self.check_channel(ix, write, current)?;
            if writes.len() > 1 {
                let declared = self.run.plan.channels.get(&write.channel);
                let reducer = declared.map_or(&Reducer::Replace, |channel| &channel.reducer);
                let value = channel::reduce(reducer, declared, current, &write.value, self.now);
                after.insert(write.channel.clone(), value);
            }
        }
        Ok(())
    }

    /// Checks and emits writes.
    pub(super) fn write_channels(
        &mut self,
        ix: NodeIx,
        writes: &[ChannelWrite],
    ) -> Result<(), NodeError> {
        writes
            .iter()
            .try_for_each(|write| self.write_channel(ix, write))
    }

    fn check_channel(
        &self,
        ix: NodeIx,
        write: &ChannelWrite,
        current: Option<&Value>,
    ) -> Result<(), NodeError> {
        let plan = &self.run.plan;
        let node = plan.node(ix);
        let declared = plan.channels.get(&write.channel);
        if declared.is_some_and(|c| !c.access.may_write(node.id.as_str(), &node.type_id)) {
            let error = NodeError::new(
                "channel_access_denied",
                format!("node {} may not write channel {}", node.id, write.channel),
            )
            .fatal();
            return Err(error.with_details(scope::denied(node, &write.channel, "writers")));
        }
        let reducer = declared.map_or(&Reducer::Replace, |channel| &channel.reducer);
        let checked = channel::check(reducer, declared, current, &write.value, self.now);
        checked.map_err(|refused| {
            NodeError::new("validation_error", refused.message(&write.channel)).fatal()
        })
    }

    /// Whether a node may set these variables. A declared channel must be written as a channel,
    /// through its reducer.
    pub(super) fn check_variables<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), NodeError> {
        let plan = &self.run.plan;
        match names.into_iter().find(|name| plan.declares_channel(name)) {
            Some(name) => Err(NodeError::new(
                "validation_error",
                format!(
                    "{} is a channel and no variable; write it with core.channelWrite, or give \
                     the variable another name",
                    quoted(name)
                ),
            )
            .fatal()),
            None => Ok(()),
        }
    }

    /// Checks and emits one write.
    pub(super) fn write_channel(
        &mut self,
        ix: NodeIx,
        write: &ChannelWrite,
    ) -> Result<(), NodeError> {
        self.check_channel(ix, write, self.facts().channels.get(&write.channel))?;
        let declared = self.run.plan.channels.get(&write.channel);
        let reducer = declared.map_or(Reducer::Replace, |channel| channel.reducer.clone());
        let schema_version = declared.map_or(1, |channel| channel.schema_version);
        let stamped = declared.is_some_and(channel::keeps_times);
        self.emit(RunEvent::ChannelWritten {
            channel: write.channel.clone(),
            value: write.value.clone(),
            reducer,
            written_at: self.now,
            schema_version,
            stamped,
            node_id: Some(self.node_id(ix)),
        });
        Ok(())
    }

    pub(super) fn output(
        &mut self,
        attempt: &AttemptId,
        channel: OutputChannel,
        chunk: &str,
        is_last: bool,
        meta: Option<&Value>,
    ) -> Result<(), Rejection> {
        let ix = self
            .live(attempt)
            .or_else(|_| self.with_a_worker(attempt))?;
        if chunk.len() > limits::MAX_CHUNK_BYTES {
            return Err(Rejection::TooLarge { what: "the chunk" });
        }
        let restart = match self.facts().nodes[ix.index()].status {
            NodeStatus::InFlight { restarts, .. } => restarts,
            _ => 0,
        };
        self.emit(RunEvent::OutputChunk {
            node_id: attempt.node.clone(),
            visit: attempt.visit,
            attempt: attempt.attempt,
            restart,
            channel,
            chunk: chunk.to_owned(),
            is_last,
            meta: meta.cloned(),
        });
        Ok(())
    }

    pub(super) fn log(
        &mut self,
        attempt: &AttemptId,
        level: LogLevel,
        message: &str,
    ) -> Result<(), Rejection> {
        self.live(attempt)?;
        if message.len() > limits::MAX_CHUNK_BYTES {
            return Err(Rejection::TooLarge { what: "the line" });
        }
        self.emit(RunEvent::LogAppended {
            level,
            message: message.to_owned(),
            attempt: Some(attempt.clone()),
        });
        Ok(())
    }

    pub(super) fn report_of(&mut self, report: &Report) -> Result<(), Rejection> {
        let ix = self.live(&report.attempt())?;
        if report.size() > limits::MAX_REPORT_BYTES {
            return Err(Rejection::TooLarge { what: "the report" });
        }
        let agent = self.agent(ix);
        self.emit(report.clone().event(agent));
        if let Report::EnvelopesExhausted(of) = report {
            // An older log may contain one round more than the limit: its plain-words round was one
            // beyond.
            let limit = of.asked.min(limits::MAX_SCHEMA_ROUNDS);
            self.emit(RunEvent::CapBreached {
                kind: CapKind::Schema,
                limit: limit.into(),
                observed: u64::from(limit) + 1,
                node_id: Some(of.node_id.clone()),
            });
        }
        if let Report::Used(used) = report
            && let Some(spent) = &used.spent
        {
            let (attempt, spent) = (report.attempt(), budget::countable(spent));
            self.emit(RunEvent::BudgetSettled { attempt, spent });
        }
        Ok(())
    }

    /// The agent of a node's tool calls: the one pinned to it, else the node itself.
    fn agent(&self, ix: NodeIx) -> String {
        let plan = &self.run.plan;
        let node = plan.node(ix);
        let pinned = node
            .agent
            .as_ref()
            .and_then(|agent| agent["agentId"].as_str());
        let id = pinned.map_or_else(|| format!("{}.{}", plan.workflow, node.id), str::to_owned);
        id.chars().take(256).collect()
    }

    pub(super) fn reserve(
        &mut self,
        attempt: &AttemptId,
        amounts: &Amounts,
        least: Option<&Amounts>,
    ) -> Result<(), Rejection> {
        self.live(attempt)?;
        if amounts.values().any(|amount| *amount > limits::MAX_COUNT) {
            return Err(Rejection::TooLarge { what: "the amount" });
        }
        let budget = &self.facts().budget;
        let granted = match least {
            Some(least) => {
                let children = &self.facts().children;
                let is_child = |holder: &str| children.keys().any(|id| id.as_str() == holder);
                budget.estimate(&attempt.to_string(), (amounts, least), is_child)
            }
            None => budget
                .fits(amounts)
                .map(|()| amounts.clone())
                .map_err(NotNow::Exhausted),
        };
        let amounts = granted.map_err(|refused| match refused {
            NotNow::Held => Rejection::BudgetHeld,
            NotNow::Exhausted(exhausted) => Rejection::BudgetExhausted {
                dimension: exhausted.dimension,
                observed: exhausted.observed,
                limit: exhausted.limit,
            },
        })?;
        let attempt = attempt.clone();
        self.emit(RunEvent::BudgetReserved { attempt, amounts });
        Ok(())
    }

    /// Settles a reservation of an attempt that will never report. All of it counts as spent,
    /// because it may have been.
    pub(super) fn write_off(&mut self, ix: NodeIx) {
        let attempt = AttemptId {
            node: self.node_id(ix),
            visit: self.facts().nodes[ix.index()].visit,
            attempt: self.current_attempt(ix),
        };
        let reserved = &self.facts().budget.reserved;
        if let Some(spent) = reserved.get(&attempt.to_string()).cloned() {
            self.emit(RunEvent::BudgetSettled { attempt, spent });
        }
    }

    /// A new holder: attempts in flight have lost theirs. They restart with the same key or, if
    /// that is forbidden, fail. In a stopping run they end.
    pub(super) fn take_over(&mut self, unrepeatable: &[AttemptId]) -> Result<(), Rejection> {
        let lost: Vec<(NodeIx, AttemptId, u32)> = self
            .run
            .live_attempts()
            .map(|live| (live.node, live.id, live.restarts))
            .collect();
        if lost.is_empty() {
            return Err(Rejection::Idle);
        }
        self.emit(RunEvent::RunResuming {
            from_status: self.run.status().to_string(),
        });
        // Failures first: one of them may end the run, and then no attempt restarts.
        let (failed, repeated): (Vec<_>, Vec<_>) = lost
            .into_iter()
            .partition(|(_, id, _)| unrepeatable.contains(id));
        for (ix, _, _) in failed {
            self.write_off(ix);
            if self.is_stopping() {
                self.cancel_node(ix, "stopped");
                continue;
            }
            let error = NodeError::new(
                "outcome_unknown",
                "the engine was lost while this attempt was running and its node must not be \
                 repeated; check by its attempt key whether it took effect",
            );
            self.fail_attempt(ix, error.fatal());
        }
        for (ix, id, restarts) in repeated {
            if self.is_stopping() {
                self.write_off(ix);
                self.cancel_node(ix, "stopped");
                continue;
            }
            // The lost holder may have spent its reservation.
            self.write_off(ix);
            self.emit(RunEvent::AttemptRestarted {
                node_id: id.node,
                visit: id.visit,
                attempt: id.attempt,
                restarts: restarts.saturating_add(1),
            });
        }
        self.conclude();
        Ok(())
    }
}
