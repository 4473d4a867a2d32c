//! `runwright runs list`.

use kernel::run::RunStatus;
use kernel::run::state::{NodeStatus, timer};
use std::collections::BTreeSet;
use std::num::NonZeroU32;

use kernel::document::{is_mark, run_status};
use kernel::ids::{StreamId, TenantId};
use kernel::problem::{closest, quoted};
use kernel::stream::StreamKind;
use kernel::time::Timestamp;
use runtime::door::Door;
use serde_json::{Value, json};
use store::{ListQuery, Listed, ReadFrom, StoreClock as _, SystemClock};

use super::awaited;
use crate::data::{Data, Table};
use crate::exit::{Exit, Failure};
use crate::lookup::{self, RunName, Shown, documents, short};
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright runs list
  runwright runs list --status failed --workflow nightly
  runwright runs list --tenant acme
  runwright runs list --json --limit 1000 | jq -r .runId

NOTE shows the code of the error that ended a run, or what a run waits for while no node is running.
`runwright runs show RUN` shows the node, and whether the run was dead-lettered: given up after the
last of several attempts.")]
pub(crate) struct Args {
    /// Only runs with this status (pending, running, paused, waiting-approval, completed, failed,
    /// cancelled, …); may be given several times
    #[arg(long = "status", value_name = "STATUS")]
    pub(crate) statuses: Vec<String>,

    /// Only runs of this tenant [default: all of the store]
    #[arg(long, value_name = "TENANT", value_parser = super::super::keys::tenant)]
    pub(crate) tenant: Option<TenantId>,

    /// Only runs of this workflow
    #[arg(long, value_name = "ID")]
    pub(crate) workflow: Option<String>,

    /// Only runs with this tag
    #[arg(long)]
    pub(crate) tag: Option<String>,

    /// Only the runs that this run started
    #[arg(long, value_name = "RUN")]
    pub(crate) parent: Option<RunName>,

    /// The most runs
    #[arg(long, value_name = "N", default_value = "50", value_parser = text::from_one::<NonZeroU32>)]
    pub(crate) limit: NonZeroU32,
}

/// The place of the tenant, when there are several.
const TENANT_COLUMN: usize = 1;

/// Rejects an impossible status, which would look like an empty result.
pub(crate) fn check_statuses(asked: &[String]) -> Result<(), Failure> {
    let known = RunStatus::ALL.map(RunStatus::as_str);
    let is_known = |status: &&String| RunStatus::parse(status).is_some();
    let Some(status) = asked.iter().find(|status| !is_known(status)) else {
        return Ok(());
    };
    let meant = closest(status, known);
    let meant = meant.map(|meant| format!("did you mean {meant}? "));
    let what = format!("unknown status {}", quoted(status));
    Err(Failure::new(what).hint(format!(
        "{}a run is {}",
        meant.unwrap_or_default(),
        known.join(", ")
    )))
}

/// Lists runs.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    check_statuses(&args.statuses)?;
    let door = session.read()?;
    let parent = match &args.parent {
        Some(name) => Some(match lookup::find_to_show(&door, name).await? {
            Shown::Run(run) => run,
            // Its children name it by its app's id.
            Shown::Document(document) => app_id_of(&door, &document).await?,
        }),
        None => None,
    };
    let limit = args.limit.get() as usize;
    let query = ListQuery {
        tenant: args.tenant,
        statuses: args.statuses,
        subject: args.workflow,
        tag: args.tag,
        parent,
        // One more shows whether the list was cut.
        limit: limit + 1,
        ..ListQuery::default()
    };
    let mut rows = lookup::documents::all(&door, query.clone()).await?;
    rows.extend(lookup::all(&door, query).await?);
    rows.sort_by(|a, b| {
        let [a, b] = [a, b].map(|row| (row.index.created_at, &row.stream));
        b.cmp(&a)
    });
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let mut rows: Vec<Row> = rows.into_iter().map(Row::from).collect();
    for row in &mut rows {
        let is_open = row.status == RunStatus::Running.as_str() && row.app_id.is_none();
        if is_open && session.form == Form::Text {
            row.waits = waits(&door, &row.run).await?;
        }
    }
    print(session, &rows, has_more.then_some(limit))
}

/// The wait of a run of which no node is at work.
async fn waits(door: &Door, id: &StreamId) -> Result<Option<String>, Failure> {
    let run = door.load(id).await?;
    let nodes = run.facts().map(|facts| &facts.nodes);
    let mut statuses = nodes.into_iter().flatten().map(|node| &node.status);
    if statuses.any(|status| matches!(status, NodeStatus::InFlight { .. })) {
        return Ok(None);
    }
    let awaited = awaited::all(door, &run).await?;
    if let Some(awaited) = awaited.values().next() {
        return Ok(Some(format!("waits for {}", awaited.in_short())));
    }
    let now = SystemClock.now();
    let due = run.timers().filter(|(name, _)| timer::is_delay(name));
    let due = due.map(|(_, due)| due).min();
    Ok(match due {
        Some(due) if due > now => Some(format!("waits {}", text::ms(due.ms_since(now)))),
        _ => None,
    })
}

async fn app_id_of(door: &Door, document: &StreamId) -> Result<StreamId, Failure> {
    let end = ReadFrom::Seq(u64::MAX);
    let index = door.store().load(document, end, 0).await?.index;
    Ok(StreamId::new(
        index.summary["id"].as_str().unwrap_or_default(),
    ))
}

/// A run in lists.
pub(crate) struct Row {
    pub(crate) run: StreamId,
    /// For a run that a browser app saved, the id from the app.
    pub(crate) app_id: Option<String>,
    /// Its tenant; a server lists a single tenant and leaves it out.
    pub(crate) tenant: Option<TenantId>,
    pub(crate) workflow: String,
    pub(crate) status: String,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) settled: bool,
    pub(crate) events: u64,
    pub(crate) parent: Option<StreamId>,
    pub(crate) tags: Vec<String>,
    /// The code of its error, or null.
    pub(crate) error: Value,
    /// Its wait, for people, where no node of it is at work.
    pub(crate) waits: Option<String>,
}

impl From<Listed> for Row {
    fn from(row: Listed) -> Self {
        if row.index.kind == StreamKind::Document {
            return Self::of_document(row);
        }
        Self {
            app_id: None,
            run: row.stream,
            tenant: Some(row.tenant),
            workflow: row.index.subject,
            status: row.index.status,
            created_at: row.index.created_at,
            updated_at: row.index.updated_at,
            settled: row.index.settled,
            events: row.next_seq,
            parent: row.index.parent,
            tags: row.index.tags,
            error: row.index.summary["error"].clone(),
            waits: None,
        }
    }
}

impl Row {
    /// A run that a browser app saved.
    fn of_document(row: Listed) -> Self {
        let status = run_status(&row.index).to_owned();
        let parent = row.index.summary["parents"][0].as_str();
        let tags = row.index.tags.iter().filter(|tag| !is_mark(tag));
        Self {
            app_id: Some(documents::app_id(&row).to_owned()),
            settled: matches!(status.as_str(), "completed" | "failed" | "cancelled"),
            status,
            parent: parent.map(Into::into),
            tags: tags.cloned().collect(),
            error: Value::Null,
            waits: None,
            run: row.stream,
            tenant: Some(row.tenant),
            workflow: row.index.subject,
            created_at: row.index.created_at,
            updated_at: row.index.updated_at,
            events: row.next_seq,
        }
    }
}

/// Prints runs. `cut_at` marks a list that was cut at this number.
pub(crate) fn print(
    session: &Session,
    rows: &[Row],
    cut_at: Option<usize>,
) -> Result<Exit, Failure> {
    let now = SystemClock.now();
    let mut data = Data::new();
    if session.form == Form::Json {
        for row in rows {
            let mut line = json!({
                "runId": row.run,
                "tenant": row.tenant,
                "workflowId": row.workflow,
                "status": row.status,
                "createdAt": row.created_at.to_string(),
                "updatedAt": row.updated_at.to_string(),
                "settled": row.settled,
                "events": row.events,
                "parentRunId": row.parent,
                "tags": row.tags,
                "error": row.error,
            });
            if let Some(id) = &row.app_id {
                line["workbench"] = json!({ "runId": id, "readOnly": true });
            }
            data.json_line(&line)?;
        }
        data.done()?;
        return Ok(Exit::Done);
    }
    let tenants: BTreeSet<&TenantId> = rows.iter().filter_map(|row| row.tenant.as_ref()).collect();
    let has_tenants = tenants.len() > 1;
    let mut head = vec![
        "RUN", "WORKFLOW", "STATUS", "BEGAN", "TOOK", "EVENTS", "NOTE",
    ];
    if has_tenants {
        head.insert(TENANT_COLUMN, "TENANT");
    }
    let mut table = Table::new(head);
    for row in rows {
        let end = if row.settled { row.updated_at } else { now };
        let mut notes = Vec::new();
        notes.extend(row.waits.as_ref().map(|waits| text::one_line(waits, 60)));
        notes.extend(row.app_id.as_ref().map(|id| text::one_line(id, 40)));
        notes.extend(row.error.as_str().map(|code| text::one_line(code, 40)));
        notes.extend(
            row.parent
                .as_ref()
                .map(|parent| format!("child of {}", short(parent))),
        );
        notes.extend(
            row.tags
                .iter()
                .map(|tag| format!("#{}", text::one_line(tag, 30))),
        );
        let mut cells = vec![
            style::strong(short(&row.run)),
            text::one_line(&row.workflow, 40),
            style::status(&text::one_line(&row.status, 30)),
            text::ago(row.created_at, now),
            text::ms(end.ms_since(row.created_at)),
            row.events.to_string(),
            notes.join(" "),
        ];
        if has_tenants {
            let tenant = row.tenant.as_ref().map_or("", TenantId::as_str);
            cells.insert(TENANT_COLUMN, text::one_line(tenant, 30));
        }
        table.row(cells);
    }
    if rows.is_empty() {
        talk::say("no run matches");
        return Ok(Exit::Done);
    }
    for line in table.lines() {
        data.line(line)?;
    }
    data.done()?;
    if rows.iter().any(|row| row.status == "failed") {
        talk::say(style::dim(
            "`runwright runs show RUN` shows the node at which a run failed, and its attempts",
        ));
    }
    if let Some(limit) = cut_at {
        talk::say(style::dim(format!(
            "there are more than these {limit}; see --limit"
        )));
    }
    Ok(Exit::Done)
}
