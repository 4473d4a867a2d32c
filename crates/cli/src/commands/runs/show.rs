//! `runwright runs show`.

use faces::player::names::is_session_id;
use faces::workbench::run_view;
use kernel::definition::NodeIx;
use kernel::ids::StreamId;
use kernel::run::Run;
use kernel::run::state::{End, Facts, Phase};
use kernel::stream::ForkMode;
use kernel::time::Timestamp;
use runtime::door::Door;
use store::{Lease, ReadFrom};

use super::super::resume::name_of;
use super::awaited::{self, AllAwaited};
use crate::budget::Used;
use crate::data::{Data, Table};
use crate::exit::{Exit, Failure};
use crate::lookup::{self, RunName, Shown, short};
use crate::remote::runs as remote_runs;
use crate::session::{Form, Session};
use crate::{budget, faces_json, style, summary, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "--json prints the OpenWOP snapshot of the run.")]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    pub(crate) run: RunName,
}

/// Shows the state of a run.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let door = session.read()?;
    let id = match lookup::find_to_show(&door, &args.run).await? {
        Shown::Run(run) => run,
        Shown::Document(document) => return show_document(session, &door, &document).await,
    };
    let run = door.load_to_show(&id).await?;
    let mut data = Data::new();
    match session.form {
        Form::Json => data.json(&faces_json::snapshot(&run))?,
        Form::Text => {
            let store = door.store();
            let lease = store.load(&id, ReadFrom::Seq(u64::MAX), 0).await?.lease;
            let awaited = awaited::all(&door, &run).await?;
            let used = Used::load(&door, &run).await?;
            let of = (lease.as_ref(), &used);
            print(&mut data, &run, of, &awaited, store.now())?;
        }
    }
    data.done()?;
    Ok(Exit::Done)
}

/// Shows a run that a browser app saved, in the form of a server.
async fn show_document(
    session: &Session,
    door: &Door,
    document: &StreamId,
) -> Result<Exit, Failure> {
    let standing = door.document(document).await?;
    let snapshot = run_view::snapshot(&standing.document).unwrap_or_default();
    let mut data = Data::new();
    match session.form {
        Form::Json => data.json(&snapshot)?,
        Form::Text => {
            remote_runs::print_head(&mut data, document.as_str(), &snapshot, &Used::default())?;
            remote_runs::print_end(&mut data, short(document), &snapshot)?;
        }
    }
    data.done()?;
    Ok(Exit::Done)
}

fn print(
    data: &mut Data,
    run: &Run,
    of: (Option<&Lease>, &Used),
    awaited: &AllAwaited,
    now: Timestamp,
) -> Result<(), Failure> {
    let Some(facts) = run.facts() else {
        return Ok(());
    };
    head(data, run, facts, of, awaited, now)?;
    data.line("")?;
    nodes(data, run, facts, awaited, now)?;
    if !facts.artifacts.is_empty() {
        let listed = facts.artifacts.iter().map(|(node, artifact)| {
            let (id, kind) = (&artifact.artifact_id, &artifact.artifact_type);
            [
                id.clone(),
                node.to_string(),
                kind.clone(),
                text::bytes(artifact.size),
            ]
        });
        artifacts(data, listed)?;
    }
    match run.end().map(|end| summary::shown_end(run, end)) {
        Some(End::Completed { .. }) => {
            data.line("")?;
            summary::print_outputs(data, run)?;
        }
        Some(End::Failed { error, .. }) => {
            summary::print_error(data, &error)?;
        }
        _ => {}
    }
    Ok(())
}

fn head(
    data: &mut Data,
    run: &Run,
    facts: &Facts,
    (lease, used): (Option<&Lease>, &Used),
    awaited: &AllAwaited,
    now: Timestamp,
) -> Result<(), Failure> {
    let end = if run.is_settled() { run.head.at } else { now };
    let mut fact = |name: &str, value: String| {
        if value.is_empty() {
            Ok(())
        } else {
            data.line(format!("{} {value}", style::dim(format!("{name:<9}"))))
        }
    };
    let (workflow, version) = (run.plan.workflow.as_str(), run.plan.version.as_str());
    fact("run", style::strong(&run.header.stream))?;
    fact(
        "workflow",
        format!(
            "{} {}",
            text::one_line(workflow, 80),
            text::one_line(version, 30)
        ),
    )?;
    fact(
        "status",
        format!(
            "{}  {}",
            style::status(run.status().as_str()),
            summary::counts(facts)
        ),
    )?;
    if let Some(given_up) = summary::dead_lettered(run) {
        fact("", style::bad(given_up))?;
    }
    let began = run.header.created_at;
    fact("began", format!("{began}  ({})", text::ago(began, now)))?;
    fact("took", text::ms(end.ms_since(began)))?;
    fact("events", run.head.next_seq.to_string())?;
    fact("used", used.words())?;
    for limit in budget::left(&facts.budget) {
        fact("budget", limit)?;
    }
    fact("tags", text::one_line(&facts.tags.join(", "), 120))?;
    if let Some(origin) = &run.header.origin {
        let kind = match origin.mode {
            ForkMode::Branch => "branch",
            ForkMode::Replay => "replay",
        };
        let (source, seq) = (short(&origin.source), origin.seq);
        fact("fork", format!("{kind} of {source} at event {seq}"))?;
    }
    if let Some(parent) = &run.header.parent {
        let node = text::one_line(parent.node.as_str(), 60);
        fact("parent", format!("{} (node {node})", short(&parent.run)))?;
    }
    for (child, state) in &facts.children {
        let workflow = text::one_line(state.workflow.as_str(), 60);
        fact("child", format!("{} {workflow}", short(child)))?;
    }
    match lease {
        Some(lease) if !run.is_settled() && runtime::holder::is_dead(&lease.holder) => {
            let lost = format!(
                "no process: {} is gone{}",
                name_of(&lease.holder),
                go_on(run)
            );
            fact("driven by", style::warn(lost))?;
        }
        Some(lease) if !run.is_settled() && lease.expires_at > now => {
            fact("driven by", name_of(&lease.holder))?;
        }
        _ if !run.is_settled() => fact("driven by", format!("no process{}", go_on(run)))?,
        _ => {}
    }
    let id = short(&run.header.stream);
    for open in &facts.interrupts {
        let node = run.plan.node(NodeIx(open.node)).id.as_str();
        if let Some(awaited) = awaited.get(&open.id) {
            fact("waits for", awaited.at_length())?;
            continue;
        }
        let kind = open.kind;
        let how = super::resolve::how(id, node, open.kind.as_str(), &open.data);
        fact("waits for", format!("{kind}: {how}"))?;
    }
    if let Some((_, due)) = run.next_timer().filter(|_| !run.is_settled()) {
        fact("wakes at", due.to_string())?;
    }
    if let Some(Phase::Paused {
        reason: Some(reason),
        ..
    }) = run.phase()
    {
        fact("paused", text::one_line(reason, 120))?;
    }
    Ok(())
}

/// The step that continues a run without a driver. A run that waits for an answer or a timer does
/// not need one yet.
fn go_on(run: &Run) -> String {
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

fn nodes(
    data: &mut Data,
    run: &Run,
    facts: &Facts,
    awaited: &AllAwaited,
    now: Timestamp,
) -> Result<(), Failure> {
    let mut table = Table::new(["NODE", "TYPE", "STATUS", "ATTEMPTS", "TOOK", "NOTE"]);
    for (node, state) in run.plan.nodes.iter().zip(&facts.nodes) {
        let took = state.started_at.map(|at| {
            text::ms(
                state
                    .settled_at
                    .unwrap_or(if run.is_settled() { run.head.at } else { now })
                    .ms_since(at),
            )
        });
        let visits = match state.visit {
            0 => String::new(),
            n => format!("visit {}  ", n + 1),
        };
        table.row([
            style::strong(text::one_line(node.id.as_str(), 40)),
            text::one_line(&node.type_id, 40),
            style::status(state.status.as_str()),
            if state.attempts == 0 {
                String::new()
            } else {
                state.attempts.to_string()
            },
            took.unwrap_or_default(),
            format!(
                "{visits}{}",
                summary::standing(awaited, run, &node.id, &state.status)
            ),
        ]);
    }
    table.lines().try_for_each(|line| data.line(line))
}

/// Prints the artifacts of nodes: id, node, type and size.
pub(crate) fn artifacts(
    data: &mut Data,
    listed: impl Iterator<Item = [String; 4]>,
) -> Result<(), Failure> {
    let mut table = Table::new(["ARTIFACT", "NODE", "TYPE", "SIZE"]);
    for [id, node, kind, size] in listed {
        table.row([
            id,
            text::one_line(&node, 40),
            text::one_line(&kind, 40),
            size,
        ]);
    }
    data.line("")?;
    table.lines().try_for_each(|line| data.line(line))
}
