//! The state of a run: a folded run as a `RunSnapshot`.
//!
//! A snapshot depends on the log only, not on the current time: two reads of an unchanged run give
//! the same bytes.

use kernel::definition::{NodeIx, Plan, PlanNode, is_model_class};
use kernel::ids::{NodeId, StreamId};
use kernel::run::budget::Amounts;
use kernel::run::state::{Child, NodeRun, OpenInterrupt, UsageTotal, timer};
use kernel::run::{End, Facts, NodeStatus, Run, RunState};
use kernel::stream::{ForkMode, Origin};
use kernel::time::Timestamp;
use serde_json::Value;

use super::fields::{Fields, error, failure};
use super::payload::{counted, interrupt, owner, settings};
use crate::mask::{Mask, apply_mask};

/// The version of the contract between log and reader in OpenWOP v1.
const EVENT_LOG_SCHEMA_VERSION: u32 = 2;

/// A folded run as a `RunSnapshot`.
///
/// The object `interrupt` (the oldest open one; `interrupts` has them all) contains neither token
/// nor address: both are secrets that only a host can sign.
pub fn snapshot(run: &Run) -> Value {
    let mut doc = unmasked(run);
    apply_mask(&mut doc);
    doc
}

/// A snapshot that still contains sealed values as in the log.
fn unmasked(run: &Run) -> Value {
    let (header, mask) = (&run.header, Mask::from_plan(&run.plan));
    let doc = Fields::new()
        .text("runId", &header.stream)
        .text("workflowId", &run.plan.workflow)
        .with("status", run.status())
        .with("owner", owner(&header.owner))
        .with("eventLogSchemaVersion", EVENT_LOG_SCHEMA_VERSION);
    let doc = match &header.parent {
        Some(parent) => doc
            .text("parentRunId", &parent.run)
            .text("parentNodeId", &parent.node),
        None => doc,
    };
    let doc = doc.maybe("forkedFrom", header.origin.as_ref().map(origin));
    let Some(facts) = run.facts() else {
        return doc.build();
    };
    let doc = ending(doc, run)
        .maybe_text("currentNodeId", current_node(run, facts))
        .text("startedAt", facts.started_at)
        .text(
            "engineVersion",
            header.engine_version.unwrap_or(facts.engine_version),
        )
        .maybe("agent", facts.agent.as_ref().and_then(agent))
        .maybe(
            "runOrchestrator",
            facts.orchestrator.as_ref().and_then(agent),
        )
        .filled("tags", &facts.tags)
        .filled("metadata", &facts.metadata)
        .filled("configurable", settings(&facts.configurable))
        .with("inputs", mask.variables(&facts.inputs))
        .with("variables", mask.variables(&facts.variables))
        .with("channels", mask.channels(&facts.channels))
        .with("nodeStates", node_states(&run.plan, facts))
        .filled("childRuns", child_runs(&run.plan, facts));
    let open = all_open(run);
    doc.maybe("interrupt", open.first())
        .filled("interrupts", &open)
        .maybe("metrics", metrics(facts))
        .build()
}

/// The origin of a fork. An extension of the protocol, which reports it only in the answer to the
/// fork. A replay copies up to the beginning of a batch and decides the rest again, for any
/// requested position.
fn origin(origin: &Origin) -> Value {
    let place = match origin.mode {
        ForkMode::Branch => "fromSeq",
        ForkMode::Replay => "copiedBelow",
    };
    Fields::new()
        .text("runId", &origin.source)
        .with(place, origin.seq)
        .with("mode", origin.mode)
        .build()
}

/// The members that a settled run adds: when it ended, and how.
fn ending(doc: Fields, run: &Run) -> Fields {
    let RunState::Settled { end, at, .. } = &run.state else {
        return doc;
    };
    let mask = Mask::from_plan(&run.plan);
    let doc = doc.text("completedAt", at).text("endedAt", at);
    match end {
        End::Completed { outputs } => doc.with("outputs", mask.run_outputs(outputs)),
        End::Failed { error: why, node } => doc
            .with("error", error(&mask.error(node.as_ref(), why)).build())
            .maybe_text("failedNodeId", node.as_ref()),
        End::Cancelled { reason } => doc.maybe("cancelReason", reason.as_ref()),
    }
}

/// The node of the oldest open interrupt, else the first node in the document that is neither
/// idle nor settled.
fn current_node<'a>(run: &'a Run, facts: &Facts) -> Option<&'a NodeId> {
    run.current_node().or_else(|| {
        let first = facts.active.first()?;
        Some(&run.plan.node(NodeIx(*first)).id)
    })
}

fn node_states(plan: &Plan, facts: &Facts) -> Value {
    let mask = Mask::from_plan(plan);
    let states = plan.nodes.iter().zip(&facts.nodes).map(|(node, state)| {
        let doc = Fields::new()
            .with("status", state.status.as_str())
            .with("visit", state.visit)
            .with("attempts", state.attempts)
            .maybe_text("startedAt", state.started_at.as_ref())
            .maybe_text("completedAt", state.settled_at.as_ref())
            .maybe_text("dueAt", due_at(facts, node, state));
        (
            node.id.to_string(),
            outcome(doc, &state.status, (mask, node)),
        )
    });
    Value::Object(states.collect())
}

/// When a node with a timer continues.
fn due_at<'a>(facts: &'a Facts, node: &PlanNode, state: &NodeRun) -> Option<&'a Timestamp> {
    match state.status {
        NodeStatus::Delayed { .. } => facts.timers.get(&timer::delay(&node.id)),
        NodeStatus::Backoff { .. } => facts.timers.get(&timer::retry(&node.id)),
        _ => None,
    }
}

fn outcome(doc: Fields, status: &NodeStatus, (mask, node): (Mask<'_>, &PlanNode)) -> Value {
    let shown = |error| failure(&mask.error(Some(&node.id), error));
    match status {
        NodeStatus::Idle
        | NodeStatus::Delayed { .. }
        | NodeStatus::Ready { .. }
        | NodeStatus::Cancelled => doc,
        NodeStatus::InFlight { restarts, .. } => {
            doc.maybe("restarts", (*restarts > 0).then_some(restarts))
        }
        NodeStatus::Dispatched { child, .. } => doc.text("childRunId", child),
        NodeStatus::FannedOut { fan, .. } => {
            doc.filled("childRunIds", fan.running.keys().collect::<Vec<_>>())
        }
        NodeStatus::Suspended { interrupt, .. } => doc.text("interruptId", interrupt),
        NodeStatus::Backoff { last_error, .. } => doc.with("lastError", shown(last_error)),
        NodeStatus::Completed { outputs, port, .. } => doc
            .with("outputs", mask.outputs(node, outputs))
            .maybe("port", port.as_ref()),
        NodeStatus::Failed { error, .. } => doc.with("error", shown(error)),
        NodeStatus::Skipped { reason } => doc.with("reason", reason),
    }
    .build()
}

/// The child runs of a run: node by node, and for each node in the order of visits and workers,
/// with repeated ones last.
fn child_runs(plan: &Plan, facts: &Facts) -> Vec<Value> {
    let child_run = |(id, child): (&StreamId, &Child)| {
        let doc = Fields::new().text("runId", id);
        match &child.status {
            Some(status) => doc.with("status", status),
            None => doc.with("status", child.waits().unwrap_or("running")),
        }
        .text("workflowId", &child.workflow)
        .text("nodeId", &plan.node(NodeIx(child.node)).id)
        .with("visit", child.visit)
        .build()
    };
    let mut children: Vec<_> = facts.children.iter().collect();
    children.sort_by_key(|(_, child)| {
        let is_live = child.status.is_none();
        (child.node, child.visit, child.worker, is_live)
    });
    children.into_iter().map(child_run).collect()
}

/// The open interrupts of a run, oldest first, as its snapshot has them.
pub fn open_interrupts(run: &Run) -> Vec<Value> {
    let mut open = all_open(run);
    open.iter_mut().for_each(apply_mask);
    open
}

fn all_open(run: &Run) -> Vec<Value> {
    let open = run.facts().map(|facts| facts.interrupts.as_slice());
    let open = open.unwrap_or_default().iter();
    open.map(|open| open_interrupt(&run.plan, open)).collect()
}

/// A question as shown to the person who answers it: an `InterruptPayload`, with its start and its
/// deadline.
pub fn question(plan: &Plan, open: &OpenInterrupt) -> Value {
    payload_of(plan, open)
        .text("requestedAt", open.requested_at)
        .maybe_text("expiresAt", open.timeout_at.as_ref())
        .build()
}

fn payload_of(plan: &Plan, open: &OpenInterrupt) -> Fields {
    let open = Mask::from_plan(plan).question(open);
    let timeout_ms = open.timeout_at.map(|due| due.ms_since(open.requested_at));
    interrupt(
        open.kind,
        &counted(&open.key, open.asked_before),
        &open.data,
        open.resume_schema.as_ref(),
        timeout_ms,
    )
}

fn open_interrupt(plan: &Plan, open: &OpenInterrupt) -> Value {
    Fields::new()
        .text("interruptId", &open.id)
        .text("nodeId", &plan.node(NodeIx(open.node)).id)
        .with("kind", open.kind)
        .with("payload", payload_of(plan, open).build())
        .text("requestedAt", open.requested_at)
        .maybe_text("expiresAt", open.timeout_at.as_ref())
        .build()
}

/// An agent as the protocol's closed `AgentRef`; other members of the definition are left out. So
/// are a memory that this engine does not have, and values registered by earlier versions that the
/// protocol would reject.
fn agent(declared: &Value) -> Option<Value> {
    const TEXTS: [(&str, usize, usize); 5] = [
        ("agentId", 3, 256),
        ("name", 0, 256),
        ("version", 0, 64),
        ("channel", 1, 64),
        ("sourceManifestId", 0, 256),
    ];
    let text = |name: &str, (least, most): (usize, usize)| {
        let text = declared.get(name)?.as_str()?;
        let length = text.chars().count();
        (least..=most).contains(&length).then_some(text)
    };
    text("agentId", (3, 256))?;
    let texts = TEXTS
        .into_iter()
        .fold(Fields::new(), |doc, (name, least, most)| {
            // An exact version and a channel exclude each other.
            let is_other = name == "channel" && declared.get("version").is_some();
            doc.maybe(name, text(name, (least, most)).filter(|_| !is_other))
        });
    let class = declared.get("modelClass").and_then(Value::as_str);
    let class = class.filter(|class| is_model_class(class));
    Some(texts.maybe("modelClass", class).build())
}

/// The usage of the run, and, as an extension of the protocol, its budget: limits, spent and
/// reserved amounts.
fn metrics(facts: &Facts) -> Option<Value> {
    let cost = facts.usage.as_ref().map(cost);
    let of_budget = &facts.budget;
    let budget = (!of_budget.limits.is_empty()).then(|| {
        let mut reserved = Amounts::new();
        for (dimension, amount) in of_budget.reserved.values().flatten() {
            let sum = reserved.entry(dimension.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
        Fields::new()
            .with("limits", &of_budget.limits)
            .with("spent", &of_budget.spent)
            .with("reserved", reserved)
            .build()
    });
    let is_there = cost.is_some() || budget.is_some();
    is_there.then(|| {
        Fields::new()
            .maybe("openwopCost", cost)
            .maybe("runwrightBudget", budget)
            .build()
    })
}

fn cost(usage: &UsageTotal) -> Value {
    let tokens = Fields::new()
        .with("input", usage.input_tokens)
        .with("output", usage.output_tokens);
    let cost = Fields::new()
        .maybe("usd", usage.usd)
        .with("tokens", tokens.build())
        .with("model", &usage.model)
        .with("provider", &usage.provider)
        .with("duration_ms", usage.duration_ms);
    cost.build()
}
