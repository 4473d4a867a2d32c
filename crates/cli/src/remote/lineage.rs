//! Forks and annotations of runs, on a server.

use serde_json::{Value, json};

use super::Remote;
use super::runs::{exit, find, follow, line, tell};
use crate::commands::runs::{ancestry, bundle, diff, fork, note};
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::talk;

/// The length of the log of an unfinished run.
async fn end(remote: &Remote, run: &str) -> Result<u64, Failure> {
    let path = format!(
        "/v1/runs/{run}/events/poll?timeout=1&lastSequence={}",
        u64::MAX
    );
    let page = remote.get(&path).await?;
    let last = page["lastEventSeq"].as_u64().unwrap_or_default();
    if page["isTerminal"] == true {
        Err(fork::ended(run, last))
    } else {
        Ok(last + 1)
    }
}

/// Forks a run. A branch is followed to its end, unless it is left to the server.
pub(super) async fn fork(
    args: fork::Args,
    session: &Session,
    remote: &Remote,
) -> Result<Exit, Failure> {
    let source = find(remote, &args.run).await?;
    let mut order = json!({ "mode": args.mode() });
    match args.at {
        Some(at) => order["fromSeq"] = json!(at),
        None if args.mode() == "branch" => order["fromSeq"] = json!(end(remote, &source).await?),
        None => {}
    }
    if !args.tags.is_empty() {
        order["runOptionsOverlay"] = json!({ "tags": args.tags });
    }
    let forked = remote
        .post(&format!("/v1/runs/{source}:fork"), &order)
        .await?;
    let run = forked["runId"].as_str().unwrap_or_default().to_owned();
    let path = format!("/v1/runs/{run}");
    let mut data = Data::new();
    if args.detach || order["mode"] == "replay" {
        match session.form {
            Form::Json => data.json_line(&remote.get(&path).await?)?,
            Form::Text => data.line(&run)?,
        }
        data.done()?;
        return Ok(match forked["divergedAtSeq"].as_u64() {
            None => Exit::Done,
            Some(seq) => {
                talk::say(format!("decided differently at event {seq}"));
                Exit::Found
            }
        });
    }
    let from = forked["fromSeq"].as_u64().unwrap_or_default();
    follow(
        remote,
        &run,
        from.checked_sub(1),
        async |docs: &[Value]| {
            for doc in docs {
                match session.form {
                    Form::Json => data.json_line(doc)?,
                    Form::Text => talk::say(line(doc)),
                }
            }
            data.flush()
        },
    )
    .await?;
    let snapshot = remote.get(&path).await?;
    match session.form {
        Form::Json => data.json_line(&snapshot)?,
        Form::Text => tell(&mut data, remote, &snapshot, 0, None, |_| false)?,
    }
    data.done()?;
    Ok(exit(&snapshot))
}

/// Compares two runs.
pub(super) async fn diff(
    args: diff::Args,
    session: &Session,
    remote: &Remote,
) -> Result<Exit, Failure> {
    let (a, b) = (
        find(remote, &args.run).await?,
        find(remote, &args.other).await?,
    );
    let compared = remote
        .get(&format!("/v1/runs/{a}:diff?against={b}"))
        .await?;
    diff::print(session, &compared)
}

/// Follows a run upwards.
pub(super) async fn ancestry(
    args: ancestry::Args,
    session: &Session,
    remote: &Remote,
) -> Result<Exit, Failure> {
    let mut next = Some(find(remote, &args.run).await?);
    let mut steps: Vec<Value> = Vec::new();
    while let (Some(run), true) = (next.take(), steps.len() < ancestry::STEPS) {
        let snapshot = match remote.get(&format!("/v1/runs/{run}")).await {
            Ok(snapshot) => Some(snapshot),
            // An ancestor may have been erased; the run itself must exist.
            Err(failure) if steps.is_empty() => return Err(failure),
            Err(_) => None,
        };
        let step = ancestry::step(&run, snapshot.as_ref());
        next = ancestry::above(&step);
        steps.push(step);
    }
    ancestry::print(session, &steps)
}

/// Annotates a run, or lists its annotations.
pub(super) async fn note(
    args: note::Args,
    session: &Session,
    remote: &Remote,
) -> Result<Exit, Failure> {
    let run = find(remote, &args.run).await?;
    let path = format!("/v1/runs/{run}/annotations");
    match args.body(&run) {
        Some(body) => note::print(session, &[remote.post(&path, &body).await?]),
        None => {
            let said = remote.get(&path).await?;
            let said = said["annotations"].as_array();
            note::print(session, said.map_or(&[], Vec::as_slice))
        }
    }
}

/// Bundles a run.
pub(super) async fn bundle(args: bundle::Args, remote: &Remote) -> Result<Exit, Failure> {
    let run = find(remote, &args.run).await?;
    let most = args.max_events.map(|most| format!("?maxEvents={most}"));
    let path = format!("/v1/runs/{run}/debug-bundle{}", most.unwrap_or_default());
    bundle::save(&args, &remote.get(&path).await?)
}
