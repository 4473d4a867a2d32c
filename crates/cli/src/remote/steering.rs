//! Answers, pauses and resumes runs of a server.

use faces::openwop::v1::queue_of_question;
use serde_json::{Value, json};

use super::runs::find;
use super::{Remote, urlencoded};
use crate::commands::runs::{interrupts, pause, resolve, unpause};
use crate::exit::{Exit, Failure};
use crate::lookup::short;
use crate::session::Session;
use crate::talk;

/// Maximum pages of a list of questions.
const MAX_PAGES: usize = 20;

/// Lists the questions of runs.
pub(super) async fn interrupts(
    args: interrupts::Args,
    session: &Session,
    remote: &Remote,
) -> Result<Exit, Failure> {
    let mut open = match &args.run {
        Some(name) => {
            let run = find(remote, name).await?;
            let mut open = questions(remote, &run).await?;
            for question in &mut open {
                question["runId"] = json!(run);
            }
            open
        }
        None => all_questions(remote).await?,
    };
    // A reader of the list does not need the tokens for answering.
    for fields in open.iter_mut().filter_map(Value::as_object_mut) {
        fields.remove("interruptToken");
        fields.remove("callbackUrl");
    }
    interrupts::print(session, &open)
}

/// The questions of all runs, page by page.
async fn all_questions(remote: &Remote) -> Result<Vec<Value>, Failure> {
    let (mut open, mut cursor) = (Vec::new(), String::new());
    for _ in 0..MAX_PAGES {
        let mut page = remote
            .get(&format!("/v1/interrupts?limit=100{cursor}"))
            .await?;
        if let Value::Array(asked) = page["interrupts"].take() {
            open.extend(asked);
        }
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={}", urlencoded(next)),
            None => return Ok(open),
        }
    }
    talk::say("there are more questions than listed here");
    Ok(open)
}

async fn questions(remote: &Remote, run: &str) -> Result<Vec<Value>, Failure> {
    let mut page = remote.get(&format!("/v1/runs/{run}/interrupts")).await?;
    match page["interrupts"].take() {
        Value::Array(open) => Ok(open),
        _ => Ok(Vec::new()),
    }
}

/// Answers a question.
pub(super) async fn resolve(args: resolve::Args, remote: &Remote) -> Result<Exit, Failure> {
    let mut value = args.answer.value()?;
    if let (Some(who), Some(fields)) = (args.answer.who(), value.as_object_mut()) {
        // Counts if the key may answer for others.
        fields.insert("decidedBy".into(), json!(who));
    }
    let run = find(remote, &args.run).await?;
    let stream = run.as_str().into();
    let id = short(&stream);
    let node = match args.node {
        Some(node) => node,
        None => {
            let open = questions(remote, &run).await?;
            let data = |open: &Value| open["payload"]["data"].clone();
            let (with_workers, open): (Vec<_>, Vec<_>) = open
                .into_iter()
                .partition(|open| queue_of_question(&data(open)).is_some());
            let name = |open: &Value| open["nodeId"].as_str().unwrap_or_default().to_owned();
            let names: Vec<String> = open.iter().map(name).collect();
            match (names.as_slice(), with_workers.first()) {
                ([one], _) => one.clone(),
                ([], Some(task)) => {
                    let data = data(task);
                    let queue = queue_of_question(&data).unwrap_or_default();
                    return Err(resolve::not_asked(&name(task), queue));
                }
                ([], None) => return Err(Failure::new(format!("run {id} has no open question"))),
                (several, _) => return Err(resolve::which(id, several)),
            }
        }
    };
    let path = format!("/v1/runs/{run}/interrupts/{}", urlencoded(&node));
    let answer = remote.post(&path, &json!({ "resumeValue": value })).await?;
    let status = answer["status"].as_str().unwrap_or_default();
    resolve::say_how_it_stands(id, &node, status);
    Ok(Exit::Done)
}

/// Pauses a run.
pub(super) async fn pause(args: pause::Args, remote: &Remote) -> Result<Exit, Failure> {
    let run = find(remote, &args.run).await?;
    let policy = if args.now {
        "immediate"
    } else {
        "drain-current-node"
    };
    let mut body = json!({ "drainPolicy": policy });
    if let Some(reason) = args.reason {
        body["reason"] = json!(reason);
    }
    let answer = remote.post(&format!("/v1/runs/{run}:pause"), &body).await?;
    pause::say(short(&run.as_str().into()), answer["pausedAt"].is_string());
    Ok(Exit::Done)
}

/// Ends the pause of a run.
pub(super) async fn unpause(args: unpause::Args, remote: &Remote) -> Result<Exit, Failure> {
    let run = find(remote, &args.run).await?;
    let body = match args.reason {
        Some(reason) => json!({ "reason": reason }),
        None => json!({}),
    };
    remote
        .post(&format!("/v1/runs/{run}:resume"), &body)
        .await?;
    let stream = run.as_str().into();
    let id = short(&stream);
    talk::say(format!("run {id} is no longer paused"));
    Ok(Exit::Done)
}
