//! `runwright runs list`.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use kernel::ids::TenantId;
use kernel::problem::{closest, quoted};
use kernel::run::RunStatus;
use serde_json::json;
use store::{StoreClock as _, SystemClock};

use crate::data::{Data, Table};
use crate::exit::{Exit, Failure};
use crate::lookup::{RunName, short};
use crate::session::{Form, Session};
use crate::target::{self, Filter, Intent, Listing};
use crate::{args, style, talk, text};

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
    statuses: Vec<String>,

    /// Only runs of this tenant [default: all of the store]
    #[arg(long, value_name = "TENANT", value_parser = args::tenant)]
    tenant: Option<TenantId>,

    /// Only runs of this workflow
    #[arg(long, value_name = "ID")]
    workflow: Option<String>,

    /// Only runs with this tag
    #[arg(long)]
    tag: Option<String>,

    /// Only the runs that this run started
    #[arg(long, value_name = "RUN")]
    parent: Option<RunName>,

    /// The most runs
    #[arg(long, value_name = "N", default_value = "50", value_parser = text::from_one::<NonZeroU32>)]
    limit: NonZeroU32,
}

/// The place of the tenant, when there are several.
const TENANT_COLUMN: usize = 1;

/// Rejects an impossible status, which would look like an empty result.
fn check_statuses(asked: &[String]) -> Result<(), Failure> {
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
    let target = target::open(session, Intent::Read).await?;
    let limit = args.limit.get() as usize;
    let filter = Filter {
        statuses: &args.statuses,
        tenant: args.tenant.as_ref(),
        workflow: args.workflow.as_deref(),
        tag: args.tag.as_deref(),
        parent: args.parent.as_ref(),
        limit,
        form: session.form,
    };
    let Listing { rows, has_more } = target.list(filter).await?;
    let now = SystemClock.now();
    let mut data = Data::new();
    if session.form == Form::Json {
        for row in &rows {
            let mut line = json!({
                "runId": row.run,
                "tenant": row.tenant,
                "workflowId": row.workflow,
                "status": row.status,
                "createdAt": row.created_at.map(|at| at.to_string()),
                "updatedAt": row.updated_at.map(|at| at.to_string()),
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
    for row in &rows {
        let end = if row.settled {
            row.updated_at
        } else {
            Some(now)
        };
        let took = end.zip(row.created_at);
        let took = took.map(|(end, began)| text::ms(end.ms_since(began)));
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
            row.created_at
                .map(|at| text::ago(at, now))
                .unwrap_or_default(),
            took.unwrap_or_default(),
            row.events.map(|n| n.to_string()).unwrap_or_default(),
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
    if has_more {
        talk::say(style::dim(format!(
            "there are more than these {limit}; see --limit"
        )));
    }
    Ok(Exit::Done)
}
