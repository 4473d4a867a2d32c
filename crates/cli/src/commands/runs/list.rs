//! `runwright runs list`.

use serde_json::json;
use store::ListQuery;

use crate::data::{Data, Table};
use crate::exit::{Exit, Failure};
use crate::lookup::{self, RunName, short};
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// What can be typed.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright runs list
  runwright runs list --status failed --workflow nightly
  runwright runs list --json --limit 1000 | jq -r .runId")]
pub(crate) struct Args {
    /// Only runs with this status (pending, running, paused, waiting-approval, completed, failed,
    /// cancelled, …); may be given several times
    #[arg(long = "status", value_name = "STATUS")]
    statuses: Vec<String>,

    /// Only runs of this workflow
    #[arg(long, value_name = "ID")]
    workflow: Option<String>,

    /// Only runs with this tag
    #[arg(long)]
    tag: Option<String>,

    /// Only the runs that this run started
    #[arg(long, value_name = "RUN")]
    parent: Option<RunName>,

    /// At most so many runs
    #[arg(long, value_name = "N", default_value = "50")]
    limit: std::num::NonZeroU32,
}

/// Lists runs.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let door = session.read()?;
    let parent = match &args.parent {
        Some(name) => Some(lookup::find(session, &door, name).await?),
        None => None,
    };
    let limit = args.limit.get() as usize;
    let query = ListQuery {
        statuses: args.statuses,
        subject: args.workflow,
        tag: args.tag,
        parent,
        // One more tells whether there are more.
        limit: limit + 1,
        ..ListQuery::default()
    };
    let mut rows = lookup::all(session, &door, query).await?;
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let now = door.store().now();
    let mut data = Data::new();
    if session.form == Form::Json {
        for row in &rows {
            data.json_line(&json!({
                "runId": row.stream,
                "workflowId": row.index.subject,
                "status": row.index.status,
                "createdAt": row.index.created_at.to_string(),
                "updatedAt": row.index.updated_at.to_string(),
                "settled": row.index.settled,
                "events": row.next_seq,
                "parentRunId": row.index.parent,
                "tags": row.index.tags,
                "error": row.index.summary["error"],
            }))?;
        }
        data.done()?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new([
        "RUN", "WORKFLOW", "STATUS", "BEGAN", "TOOK", "EVENTS", "NOTE",
    ]);
    for row in &rows {
        let index = &row.index;
        let end = if index.settled { index.updated_at } else { now };
        let mut notes = Vec::new();
        notes.extend(
            index.summary["error"]
                .as_str()
                .map(|code| text::one_line(code, 40)),
        );
        notes.extend(
            index
                .parent
                .as_ref()
                .map(|parent| format!("child of {}", short(parent))),
        );
        notes.extend(
            index
                .tags
                .iter()
                .map(|tag| format!("#{}", text::one_line(tag, 30))),
        );
        table.row([
            style::strong(short(&row.stream)),
            text::one_line(&index.subject, 40),
            style::status(&text::one_line(&index.status, 30)),
            text::ago(index.created_at, now),
            text::ms(end.ms_since(index.created_at)),
            row.next_seq.to_string(),
            notes.join(" "),
        ]);
    }
    if rows.is_empty() {
        talk::say("no run matches");
        return Ok(Exit::Done);
    }
    for line in table.lines() {
        data.line(line)?;
    }
    data.done()?;
    if has_more {
        talk::say(style::dim(format!(
            "there are more than these {limit}; see --limit"
        )));
    }
    Ok(Exit::Done)
}
