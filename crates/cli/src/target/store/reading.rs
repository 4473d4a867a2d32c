//! Lists, events and documents of the runs of a store.

use std::time::Duration;

use faces::Mask;
use faces::openwop::v1::{Bundle, Diff, SPANS_BYTES};
use kernel::batch::Record;
use kernel::ids::{Seq, StreamId};
use kernel::run::state::{NodeStatus, timer};
use kernel::run::{Event, RunStatus};
use runtime::api::HIDDEN;
use runtime::door::Door;
use runtime::redact::Redactor;
use runtime::telemetry;
use runtime::telemetry::spans::{shown, spans};
use serde_json::Value;
use store::{ListQuery, ReadFrom, StoreClock as _, StoreError, SystemClock};

use super::super::{Cursor, EventLine, Filter, Listing, Row, Sink, lines};
use crate::exit::Failure;
use crate::lookup::{self, Shown};
use crate::questions::awaited;
use crate::session::Form;
use crate::{faces_json, text};

/// Events read at a time.
const PAGE: usize = 1_000;
/// The polling interval of a log: another process may write it without a notification.
const POLL: Duration = Duration::from_millis(200);

/// The runs and documents that a filter matches.
pub(super) async fn list(door: &Door, filter: Filter<'_>) -> Result<Listing, Failure> {
    let parent = match filter.parent {
        Some(name) => Some(match lookup::find_to_show(door, name).await? {
            Shown::Run(run) => run,
            // Its children name it by its app's id.
            Shown::Document(document) => app_id_of(door, &document).await?,
        }),
        None => None,
    };
    let query = ListQuery {
        tenant: filter.tenant.cloned(),
        statuses: filter.statuses.to_vec(),
        subject: filter.workflow.map(str::to_owned),
        tag: filter.tag.map(str::to_owned),
        parent,
        // One more shows whether the list was cut.
        limit: filter.limit + 1,
        ..ListQuery::default()
    };
    let mut rows = lookup::documents::all(door, query.clone()).await?;
    rows.extend(lookup::all(door, query).await?);
    rows.sort_by(|a, b| {
        let [a, b] = [a, b].map(|row| (row.index.created_at, &row.stream));
        b.cmp(&a)
    });
    let has_more = rows.len() > filter.limit;
    rows.truncate(filter.limit);
    let mut rows: Vec<Row> = rows.into_iter().map(Row::from).collect();
    for row in &mut rows {
        let is_open = row.status == RunStatus::Running.as_str() && row.app_id.is_none();
        if is_open && filter.form == Form::Text {
            row.waits = waits(door, &row.run).await?;
        }
    }
    Ok(Listing { rows, has_more })
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
    let index = door.store().load_head(document).await?.index;
    Ok(StreamId::new(
        index.summary["id"].as_str().unwrap_or_default(),
    ))
}

/// An event of a log.
fn read(run: &StreamId, record: &Record) -> Result<Event, Failure> {
    let event = serde_json::from_slice(&record.content)
        .map_err(|_| StoreError::Corrupt(format!("an event of run {run} cannot be read")))?;
    Ok(event)
}

/// The events after a cursor.
pub(super) async fn events(
    door: &Door,
    cursor: &mut Cursor,
    form: Form,
) -> Result<Vec<EventLine>, Failure> {
    let next = cursor.after.map_or(0, |after| after.saturating_add(1));
    let loaded = door
        .store()
        .load(&cursor.run, ReadFrom::Seq(next), PAGE)
        .await?;
    let plan = door.plan_of(&loaded.header).await?;
    let mask = Mask::from_plan(&plan);
    let mut lines = Vec::with_capacity(loaded.records.len());
    for (seq, record) in (next..).zip(&loaded.records) {
        let event: Event = serde_json::from_slice(&record.content).map_err(|error| {
            let run = &cursor.run;
            StoreError::Corrupt(format!("event {seq} of run {run} cannot be read: {error}"))
        })?;
        if event.cause.is_some() {
            cursor.cause = Some(event.seq);
        }
        cursor.after = Some(seq);
        let line = faces::transcript::line(mask, &event);
        lines.push(EventLine {
            at: Some(event.at),
            text: match form {
                Form::Json => {
                    faces_json::event(&loaded.header, mask, &event, cursor.cause).to_string()
                }
                Form::Text => lines::of_event(event.seq, &line),
            },
            kind: line.kind.to_string(),
            native: None,
        });
    }
    Ok(lines)
}

/// The events after a cursor, after a pause if there are none.
pub(super) async fn new_events(
    door: &Door,
    cursor: &mut Cursor,
    form: Form,
) -> Result<Vec<EventLine>, Failure> {
    // Before reading, so that the last event is certainly read.
    let index = door.store().load_head(&cursor.run).await?.index;
    let lines = events(door, cursor, form).await?;
    if lines.is_empty() {
        cursor.is_complete = index.settled;
        if !index.settled {
            tokio::time::sleep(POLL).await;
        }
    }
    Ok(lines)
}

/// The differences of two runs.
pub(super) async fn diff(door: &Door, a: &StreamId, b: &StreamId) -> Result<Value, Failure> {
    let (a_run, b_run) = (door.load(a).await?, door.load(b).await?);
    let (a_log, b_log) = (log(door, a).await?, log(door, b).await?);
    let mut diff = Diff::default();
    for seq in 0..a_log.len().max(b_log.len()) {
        let a = a_log.get(seq);
        let a = a.map(|event| (&*a_run.header, Mask::from_plan(&a_run.plan), event));
        let b = b_log.get(seq);
        let b = b.map(|event| (&*b_run.header, Mask::from_plan(&b_run.plan), event));
        if !diff.pair(seq as Seq, a, b) {
            break;
        }
    }
    Ok(diff.build(&a_run, &b_run))
}

async fn log(door: &Door, run: &StreamId) -> Result<Vec<Event>, Failure> {
    let loaded = door.store().load(run, ReadFrom::Seq(0), usize::MAX).await?;
    loaded
        .records
        .iter()
        .map(|record| read(run, record))
        .collect()
}

/// State, events and annotations of a run.
pub(super) async fn bundle(
    door: &Door,
    id: &StreamId,
    max_events: Option<usize>,
) -> Result<Value, Failure> {
    let run = door.load_to_show(id).await?;
    let notes = door.notes(id).await?;
    let mut bundle = Bundle::new(&run, max_events.unwrap_or(usize::MAX));
    let end = usize::try_from(run.head.next_seq).unwrap_or(usize::MAX);
    let log = door.store().load(id, ReadFrom::Seq(0), end).await?;
    let mut cause = None;
    let mut events = Vec::new();
    for record in &log.records {
        let event = read(id, record)?;
        if event.cause.is_some() {
            cause = Some(event.seq);
        }
        if !bundle.add(&run, &event, cause) {
            break;
        }
        events.push(event);
    }
    let family = telemetry::family(&**door.store(), &run.header).await?;
    let spans = spans(&run.header, &family.of_workflow(&run.plan), &events);
    let (spans, is_whole) = shown(&spans, SPANS_BYTES);
    bundle.show_spans(spans, is_whole);
    let mut document = bundle.build(&notes, door.store().now());
    Redactor::masking().value(&mut document);
    Ok(document)
}

/// The bytes of an artifact.
pub(super) async fn artifact(
    door: &Door,
    run: &StreamId,
    id: &str,
    to: Sink<'_>,
) -> Result<(), Failure> {
    let state = door.load(run).await?;
    let artifacts = state.facts().map(|facts| facts.artifacts.as_slice());
    let mut artifacts = artifacts.unwrap_or_default().iter();
    let (node, artifact) = artifacts
        .find(|(_, artifact)| artifact.artifact_id == id)
        .ok_or(StoreError::Missing)?;
    if state.plan.hides_talk(node) {
        let hint = "run the workflow without the node's `outputSensitivity` and without a \
                    `complianceClass` to show it";
        return Err(Failure::new(HIDDEN).hint(hint));
    }
    to(&[])?;
    for part in &artifact.parts {
        to(&door.store().blob(state.header.tenant(), part).await?)?;
    }
    Ok(())
}
