//! The state of a run of a store for people.

use faces::player::names::is_session_id;
use kernel::definition::NodeIx;
use kernel::ids::{HolderId, StreamId};
use kernel::run::Run;
use kernel::run::state::{Facts, Phase};
use kernel::stream::ForkMode;
use kernel::time::Timestamp;
use runtime::door::Door;
use runtime::holder;
use store::Lease;

use super::super::{ArtifactRow, RunView};
use crate::budget::{self, Used};
use crate::data::Table;
use crate::exit::Failure;
use crate::lookup::short;
use crate::questions::awaited::{self, AllAwaited};
use crate::{questions, style, summary, text};

/// Reads a run.
pub(super) async fn load(door: &Door, id: &StreamId) -> Result<RunView, Failure> {
    let run = door.load_to_show(id).await?;
    let store = door.store();
    let lease = store.load_head(id).await?.lease;
    let awaited = awaited::all(door, &run).await?;
    let used = Used::load(door, &run).await?;
    let Some(facts) = run.facts() else {
        return Ok(RunView::default());
    };
    let now = store.now();
    Ok(RunView {
        facts: head(&run, facts, (lease.as_ref(), &used), &awaited, now),
        nodes: nodes(&run, facts, &awaited, now),
        artifacts: artifacts(&run),
        end: run.end().map(|end| summary::shown_end(&run, end)),
        name: short(id).to_owned(),
        plan: Some(run.plan.clone()),
    })
}

/// The artifacts of a run.
pub(super) fn artifacts(run: &Run) -> Vec<ArtifactRow> {
    let artifacts = run.facts().map(|facts| facts.artifacts.as_slice());
    let artifacts = artifacts.unwrap_or_default().iter();
    let row = artifacts.map(|(node, artifact)| ArtifactRow {
        id: artifact.artifact_id.clone(),
        node: node.to_string(),
        kind: artifact.artifact_type.clone(),
        size: artifact.size,
        digest: artifact.digest.to_string(),
    });
    row.collect()
}

fn head(
    run: &Run,
    facts: &Facts,
    (lease, used): (Option<&Lease>, &Used),
    awaited: &AllAwaited,
    now: Timestamp,
) -> Vec<(&'static str, String)> {
    let end = if run.is_settled() { run.head.at } else { now };
    let workflow = text::one_line(run.plan.workflow.as_str(), 80);
    let version = text::one_line(&run.plan.version, 30);
    let status = style::status(run.status().as_str());
    let began = run.header.created_at;
    let mut shown = vec![
        ("run", style::strong(&run.header.stream)),
        ("workflow", format!("{workflow} {version}")),
        ("status", format!("{status}  {}", summary::counts(facts))),
    ];
    let mut fact = |name: &'static str, value: String| shown.push((name, value));
    if let Some(given_up) = summary::dead_lettered(run) {
        fact("", style::bad(given_up));
    }
    fact("began", format!("{began}  ({})", text::ago(began, now)));
    fact("took", text::ms(end.ms_since(began)));
    fact("events", run.head.next_seq.to_string());
    fact("used", used.words());
    for limit in budget::left(&facts.budget) {
        fact("budget", limit);
    }
    fact("tags", text::one_line(&facts.tags.join(", "), 120));
    if let Some(origin) = &run.header.origin {
        let kind = match origin.mode {
            ForkMode::Branch => "branch",
            ForkMode::Replay => "replay",
        };
        let (source, seq) = (short(&origin.source), origin.seq);
        fact("fork", format!("{kind} of {source} at event {seq}"));
    }
    if let Some(parent) = &run.header.parent {
        let node = text::one_line(parent.node.as_str(), 60);
        fact("parent", format!("{} (node {node})", short(&parent.run)));
    }
    for (child, state) in &facts.children {
        let workflow = text::one_line(state.workflow.as_str(), 60);
        fact("child", format!("{} {workflow}", short(child)));
    }
    match lease {
        _ if run.is_settled() => {}
        Some(lease) if holder::is_dead(&lease.holder) => {
            let lost = holder_name(&lease.holder);
            let lost = format!("no process: {lost} is gone{}", next_step(run));
            fact("driven by", style::warn(lost));
        }
        Some(lease) if lease.expires_at > now => fact("driven by", holder_name(&lease.holder)),
        _ => fact("driven by", format!("no process{}", next_step(run))),
    }
    let id = short(&run.header.stream);
    for open in &facts.interrupts {
        let node = run.plan.node(NodeIx(open.node)).id.as_str();
        if let Some(awaited) = awaited.get(&open.id) {
            fact("waits for", awaited.at_length());
            continue;
        }
        let kind = open.kind;
        let how = questions::how(id, node, kind.as_str(), &open.data);
        fact("waits for", format!("{kind}: {how}"));
    }
    if let Some((_, due)) = run.next_timer().filter(|_| !run.is_settled()) {
        fact("wakes at", due.to_string());
    }
    if let Some(Phase::Paused {
        reason: Some(reason),
        ..
    }) = run.phase()
    {
        fact("paused", text::one_line(reason, 120));
    }
    shown
}

/// The step that continues a run without a driver. A run that waits for an answer or a timer does
/// not need one yet.
fn next_step(run: &Run) -> String {
    let is_at_work = run.status().is_in_flight();
    if !is_at_work || run.next_timer().is_some() {
        return String::new();
    }
    let id = short(&run.header.stream);
    if is_session_id(id) {
        format!("; `runwright play --resume {id}` continues it")
    } else {
        format!("; `runwright resume {id}` continues it")
    }
}

/// A holder in words. Names given by other programs are shown unchanged.
pub(crate) fn holder_name(holder: &HolderId) -> String {
    let parts: Vec<&str> = holder.as_str().split('/').collect();
    let here = holder::this_process();
    let machine = here.as_str().split('/').next();
    match parts.as_slice() {
        [at, _, pid, _] if Some(*at) == machine => format!("process {pid} of this machine"),
        [at, _, pid, _] => {
            let at = text::one_line(at, 12);
            format!("process {pid} of another machine ({at}), which may have died")
        }
        _ => text::one_line(holder.as_str(), 80),
    }
}

fn nodes(run: &Run, facts: &Facts, awaited: &AllAwaited, now: Timestamp) -> Table {
    let mut table = Table::new(["NODE", "TYPE", "STATUS", "ATTEMPTS", "TOOK", "NOTE"]);
    let end = if run.is_settled() { run.head.at } else { now };
    for (node, state) in run.plan.nodes.iter().zip(&facts.nodes) {
        let took = |at| text::ms(state.settled_at.unwrap_or(end).ms_since(at));
        let visits = match state.visit {
            0 => String::new(),
            n => format!("visit {}  ", n + 1),
        };
        let attempts = match state.attempts {
            0 => String::new(),
            attempts => attempts.to_string(),
        };
        let note = summary::standing(awaited, run, &node.id, &state.status);
        table.row([
            style::strong(text::one_line(node.id.as_str(), 40)),
            text::one_line(&node.type_id, 40),
            style::status(state.status.as_str()),
            attempts,
            state.started_at.map_or_else(String::new, took),
            format!("{visits}{note}"),
        ]);
    }
    table
}
