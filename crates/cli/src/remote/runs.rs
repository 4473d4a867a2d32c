//! `runwright runs` against a server.

use std::time::Duration;

use faces::Mask;
use faces::workbench::document::is_run_id;
use kernel::ids::StreamId;
use kernel::problem::quoted;
use kernel::run::{End, NodeError};
use kernel::time::Timestamp;
use serde_json::{Value, json};

use super::{Remote, artifact};
use crate::budget::{self, Used};
use crate::commands::runs::{cancel, events, list, show, tail};
use crate::data::{Data, Table};
use crate::exit::{Exit, Failure};
use crate::lookup::{RunName, SHORTEST, is_part, short};
use crate::session::{Form, Session};
use crate::summary::RunSummary;
use crate::text::Days;
use crate::{style, summary, talk, text};

/// Maximum pages searched for a run by a part of its id.
const PAGES: usize = 20;

/// The run with this name: an id, a part of one, or `last`.
pub(super) async fn find(remote: &Remote, name: &RunName) -> Result<String, Failure> {
    let typed = name.as_str();
    let is_last = matches!(typed, "last" | "latest");
    let is_stream = ["run-", "doc-"].iter().any(|kind| typed.starts_with(kind));
    // A server also finds a run of a browser app by the app's own id.
    if is_stream && typed.len() > 24 || is_run_id(typed) {
        return Ok(typed.to_owned());
    }
    let mut path = "/v1/runs?limit=500".to_owned();
    let mut found = Vec::new();
    for _ in 0..PAGES {
        let page = remote.get(&path).await?;
        for row in page["runs"].as_array().into_iter().flatten() {
            let id = row["runId"].as_str().unwrap_or_default();
            if is_last && row.get("parentRunId").is_none() {
                return Ok(id.to_owned());
            }
            let app = row["workbench"]["runId"].as_str();
            let is_meant = [Some(id), app]
                .into_iter()
                .flatten()
                .any(|id| is_part(typed, &id.into()));
            if typed.len() >= SHORTEST && is_meant {
                found.push(id.to_owned());
            }
        }
        match page["nextCursor"].as_str() {
            Some(cursor) => path = format!("/v1/runs?limit=500&cursor={cursor}"),
            None => break,
        }
    }
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] if is_last => Err(Failure::new("no run yet")),
        [] => Err(
            Failure::new(format!("no run {} on this server", quoted(typed)))
                .hint("`runwright runs list` shows the runs"),
        ),
        _ => Err(Failure::new(format!("{} fits several runs", quoted(typed)))
            .hint("give more characters of the id")),
    }
}

/// Lists runs.
pub(super) async fn list(
    args: list::Args,
    session: &Session,
    remote: &Remote,
) -> Result<Exit, Failure> {
    list::check_statuses(&args.statuses)?;
    if args.tenant.is_some() {
        let what = "a server lists only the runs of the key's tenant";
        return Err(Failure::new(what).hint("remove --tenant, or use a key of that tenant"));
    }
    let parent = match &args.parent {
        Some(name) => Some(find(remote, name).await?),
        None => None,
    };
    let limit = args.limit.get() as usize;
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for status in &args.statuses {
        query.append_pair("status", status);
    }
    let others = [
        ("workflowId", &args.workflow),
        ("tag", &args.tag),
        ("parentRunId", &parent),
    ];
    for (name, value) in others {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    query.append_pair("limit", &limit.min(500).to_string());
    let query = query.finish();
    let (mut rows, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let behind = cursor.map(|cursor| format!("&cursor={cursor}"));
        let path = format!("/v1/runs?{query}{}", behind.unwrap_or_default());
        let mut page = remote.get(&path).await?;
        if let Value::Array(runs) = page["runs"].take() {
            rows.extend(runs);
        }
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() || rows.len() >= limit {
            break;
        }
    }
    let has_more = cursor.is_some() || rows.len() > limit;
    rows.truncate(limit);
    let rows: Vec<list::Row> = rows.iter().map(row).collect();
    list::print(session, &rows, has_more.then_some(limit))
}

fn row(row: &Value) -> list::Row {
    let word = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let time = |name: &str| {
        let at = row[name].as_str().and_then(kernel::time::Timestamp::parse);
        at.unwrap_or_default()
    };
    let tags = row["tags"].as_array().into_iter().flatten();
    list::Row {
        waits: None,
        run: word("runId").as_str().into(),
        app_id: row["workbench"]["runId"].as_str().map(str::to_owned),
        tenant: None,
        workflow: word("workflowId"),
        status: word("status"),
        created_at: time("createdAt"),
        updated_at: time("updatedAt"),
        settled: row["settled"] == json!(true),
        events: row["events"].as_u64().unwrap_or_default(),
        parent: row["parentRunId"].as_str().map(Into::into),
        tags: tags
            .filter_map(|tag| tag.as_str().map(str::to_owned))
            .collect(),
        error: row["error"]["code"].clone(),
    }
}

/// Shows the state of a run.
pub(super) async fn show(
    args: show::Args,
    session: &Session,
    remote: &Remote,
) -> Result<Exit, Failure> {
    let run = find(remote, &args.run).await?;
    let snapshot = remote.get(&format!("/v1/runs/{run}")).await?;
    let mut data = Data::new();
    if session.form == Form::Json {
        data.json(&snapshot)?;
        data.done()?;
        return Ok(Exit::Done);
    }
    let used = Used::of_remote(remote, &snapshot).await;
    print_head(&mut data, &run, &snapshot, &used)?;
    artifact::list(&mut data, remote, &run).await?;
    let typed = format!("{run}{}", remote.place());
    print_end(&mut data, &typed, &snapshot)?;
    data.done()?;
    Ok(Exit::Done)
}

/// Prints the state of a run and its nodes, from its snapshot.
pub(crate) fn print_head(
    data: &mut Data,
    run: &str,
    snapshot: &Value,
    used: &Used,
) -> Result<(), Failure> {
    let word = |name: &str| text::one_line(snapshot[name].as_str().unwrap_or_default(), 120);
    let status = format!(
        "{}  {}",
        style::status(&word("status")),
        counts(snapshot, 0)
    );
    let tags = snapshot["tags"].as_array().into_iter().flatten();
    let tags: Vec<&str> = tags.filter_map(Value::as_str).collect();
    let left = budget::left(&budget::of_snapshot(snapshot));
    for (name, value) in [
        ("run", style::strong(run)),
        ("workflow", word("workflowId")),
        ("status", status),
        (
            "",
            attempts_of_failure(snapshot)
                .map(style::bad)
                .unwrap_or_default(),
        ),
        ("began", word("startedAt")),
        ("ended", word("endedAt")),
        ("used", used.words()),
    ]
    .into_iter()
    .chain(left.into_iter().map(|limit| ("budget", limit)))
    .chain([
        ("tags", text::one_line(&tags.join(", "), 120)),
        ("parent", word("parentRunId")),
    ]) {
        if !value.is_empty() {
            data.line(format!("{} {value}", style::dim(format!("{name:<9}"))))?;
        }
    }
    let mut table = Table::new(["NODE", "STATUS", "ATTEMPTS", "NOTE"]);
    for (node, state) in snapshot["nodeStates"].as_object().into_iter().flatten() {
        let errors = [&state["error"]["message"], &state["lastError"]["message"]];
        let error = errors.into_iter().find_map(Value::as_str);
        table.row([
            style::strong(text::one_line(node, 40)),
            style::status(&text::one_line(
                state["status"].as_str().unwrap_or_default(),
                30,
            )),
            match state["attempts"].as_u64() {
                None | Some(0) => String::new(),
                Some(attempts) => attempts.to_string(),
            },
            text::one_line(error.unwrap_or_default(), 100),
        ]);
    }
    data.line("")?;
    table.lines().try_for_each(|line| data.line(line))
}

/// Prints how a run ended, from its snapshot. `typed` is the typed name of the run.
pub(crate) fn print_end(data: &mut Data, typed: &str, snapshot: &Value) -> Result<(), Failure> {
    match end(snapshot) {
        Some(End::Completed { outputs }) => {
            data.line("")?;
            // The snapshot does not mark process nodes.
            summary::print_outputs_of(data, typed, &outputs, |_| false)
        }
        Some(End::Failed { error, .. }) => summary::print_error(data, &error),
        _ => Ok(()),
    }
}

/// The number of attempts of the failed node, if there were several. Only events show whether the
/// run was dead-lettered.
fn attempts_of_failure(snapshot: &Value) -> Option<String> {
    let node = snapshot["failedNodeId"].as_str()?;
    let attempts = snapshot["nodeStates"][node]["attempts"].as_u64()?;
    (attempts > 1).then(|| {
        let attempts = text::count(attempts as usize, "attempt");
        format!("failed after {attempts} of {}", text::one_line(node, 60))
    })
}

/// Prints how a run ended, from its snapshot and further facts: how often another engine took it
/// over, and that it was dead-lettered.
pub(super) fn tell(
    data: &mut Data,
    remote: &Remote,
    snapshot: &Value,
    takeovers: u32,
    dead_letter: Option<String>,
    is_process: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    let Some(end) = end(snapshot) else {
        return Ok(());
    };
    let text = |name: &str| snapshot[name].as_str().unwrap_or_default();
    let id: StreamId = text("runId").into();
    let time = |name: &str| Timestamp::parse(text(name));
    let took_ms = time("endedAt").zip(time("startedAt"));
    summary::say_end(&RunSummary {
        id: &id,
        workflow: text("workflowId"),
        end: &end,
        took_ms: took_ms.map_or(0, |(ended, began)| ended.ms_since(began)),
        counts: counts(snapshot, takeovers),
        dead_letter: dead_letter.or_else(|| attempts_of_failure(snapshot)),
    });
    if let End::Completed { outputs } = &end {
        let run = format!("{}{}", short(&id), remote.place());
        summary::print_outputs_of(data, &run, outputs, is_process)?;
    }
    Ok(())
}

/// Prints the events of a run.
pub(super) async fn events(
    args: events::Args,
    session: &Session,
    remote: &Remote,
) -> Result<Exit, Failure> {
    let run = find(remote, &args.run).await?;
    let mut left = args.limit.unwrap_or(usize::MAX);
    let mut after = args.after;
    let mut data = Data::new();
    let mut days = Days::after(text::now());
    while left > 0 {
        let page = remote.log(&run, after).await?;
        let docs = page["events"].as_array().cloned().unwrap_or_default();
        let Some(last) = docs.last() else { break };
        after = last["sequence"].as_u64();
        let wanted = docs.iter().filter(|doc| is_wanted(doc, &args.types));
        let wanted: Vec<&Value> = wanted.take(left).collect();
        left -= wanted.len();
        print(&mut data, session.form, &wanted, &mut days)?;
    }
    data.done()?;
    Ok(Exit::Done)
}

/// Follows a run until it has ended.
pub(super) async fn tail(
    args: tail::Args,
    session: &Session,
    remote: &Remote,
) -> Result<Exit, Failure> {
    let run = find(remote, &args.run).await?;
    let mut data = Data::new();
    let mut days = Days::after(text::now());
    follow(remote, &run, args.after, async |docs: &[Value]| {
        let wanted = docs.iter().filter(|doc| is_wanted(doc, &args.types));
        let wanted = wanted.collect::<Vec<_>>();
        print(&mut data, session.form, &wanted, &mut days)?;
        data.flush()
    })
    .await?;
    data.done()?;
    Ok(exit(&remote.get(&format!("/v1/runs/{run}")).await?))
}

/// Cancels a run.
pub(super) async fn cancel(args: cancel::Args, remote: &Remote) -> Result<Exit, Failure> {
    let run = find(remote, &args.run).await?;
    let body = match args.reason {
        Some(reason) => json!({ "reason": reason }),
        None => json!({}),
    };
    let answer = remote
        .post(&format!("/v1/runs/{run}/cancel"), &body)
        .await?;
    let id = run.as_str().into();
    let id = short(&id);
    match answer["status"].as_str().unwrap_or_default() {
        "cancelling" => talk::say(format!(
            "run {id} is being cancelled; its running nodes are stopped"
        )),
        status => talk::say(format!("run {id} is {}", text::one_line(status, 30))),
    }
    Ok(Exit::Done)
}

/// Prints the events of a run as they come, until it has ended.
pub(super) async fn follow(
    remote: &Remote,
    run: &str,
    mut after: Option<u64>,
    mut each: impl AsyncFnMut(&[Value]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    loop {
        let page = poll(remote, run, after, Duration::from_secs(30)).await?;
        let docs = page["events"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        each(docs).await?;
        if page["isComplete"] == json!(true) {
            return Ok(());
        }
        after = page["lastEventSeq"].as_u64().or(after);
    }
}

/// A server's events of a run after a sequence, once there is one or the wait time has passed.
pub(super) async fn poll(
    remote: &Remote,
    run: &str,
    after: Option<u64>,
    hold: Duration,
) -> Result<Value, Failure> {
    let seconds = hold.as_secs();
    let cursor = after.map_or_else(String::new, |seq| format!("&lastSequence={seq}"));
    let path = format!("/v1/runs/{run}/events/poll?timeout={seconds}{cursor}");
    remote.get(&path).await
}

fn is_wanted(doc: &Value, types: &[String]) -> bool {
    types.is_empty() || types.iter().any(|kind| doc["type"] == kind.as_str())
}

fn print(data: &mut Data, form: Form, docs: &[&Value], days: &mut Days) -> Result<(), Failure> {
    for doc in docs {
        match form {
            Form::Json => data.json_line(doc)?,
            Form::Text => {
                let at = doc["timestamp"].as_str().and_then(Timestamp::parse);
                if let Some(day) = at.and_then(|at| days.turn(at)) {
                    data.line(style::dim(day))?;
                }
                data.line(line(doc))?;
            }
        }
    }
    Ok(())
}

/// An event on a line, as for a store. An unknown type is shown by its name.
pub(super) fn line(doc: &Value) -> String {
    match faces::openwop::v1::read(doc) {
        Some(event) => events::line_of(event.seq, &faces::transcript::line(Mask::bare(), &event)),
        None => {
            let word = |name: &str| text::one_line(doc[name].as_str().unwrap_or_default(), 60);
            let time = word("timestamp");
            let time = time.split('T').nth(1).unwrap_or_default();
            let line = format!(
                "{:>5}  {}  {:<27} {:<14}",
                doc["sequence"].as_u64().unwrap_or_default(),
                style::dim(time.trim_end_matches('Z')),
                word("type"),
                word("nodeId"),
            );
            line.trim_end().to_owned()
        }
    }
}

/// How a run ended, by its snapshot; `None` while it is in progress.
fn end(snapshot: &Value) -> Option<End> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match snapshot["status"].as_str()? {
        "completed" => Some(End::Completed {
            outputs: snapshot["outputs"].as_object().cloned().unwrap_or_default(),
        }),
        "failed" => {
            let error = &snapshot["error"];
            Some(End::Failed {
                error: NodeError::new(text(&error["code"]), text(&error["message"])),
                node: snapshot["failedNodeId"].as_str().map(Into::into),
            })
        }
        "cancelled" => Some(End::Cancelled {
            reason: snapshot["cancelReason"].as_str().map(str::to_owned),
        }),
        _ => None,
    }
}

/// The number of a run's nodes in each state, from its snapshot.
fn counts(snapshot: &Value, takeovers: u32) -> String {
    let nodes = snapshot["nodeStates"].as_object().into_iter().flatten();
    let statuses: Vec<&str> = nodes
        .filter_map(|(_, node)| node["status"].as_str())
        .collect();
    summary::counted(statuses.iter().copied(), takeovers)
}

/// The exit code for a run.
pub(super) fn exit(snapshot: &Value) -> Exit {
    match snapshot["status"].as_str() {
        Some("failed" | "cancelled") => Exit::Found,
        _ => Exit::Done,
    }
}
