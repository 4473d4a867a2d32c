//! The snapshot of a run of the store, or of a run that a browser recorded there.

use std::collections::VecDeque;

use capture::attempts::Log;
use faces::Mask;
use faces::provenance::capture::{Captured, RunCapture};
use faces::provenance::document_capture::of_document;
use kernel::ids::StreamId;
use kernel::problem::quoted;
use kernel::run::{Event, Run, RunEvent};
use kernel::stream::StreamKind;
use provenance::Redaction;
use runtime::door::Door;
use serde_json::json;
use store::{ListQuery, ReadFrom, StoreError};

use super::{Rooted, failed, key};
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::lookup::{self, RunName};
use crate::session::{Form, Session};
use crate::talk;

/// Events read at a time.
const PAGE: usize = 1_000;

/// Captures a run and prints the path of its snapshot.
pub(super) async fn capture(
    run: &RunName,
    name: Option<String>,
    rooted: &Rooted,
    session: &Session,
) -> Result<Exit, Failure> {
    let door = session.read()?;
    let redaction = Redaction::of_environment(std::env::vars());
    let (id, captured) = match lookup::find(&door, run).await {
        Ok(id) => {
            let captured = read(&door, &id, &redaction).await?;
            (id, captured)
        }
        Err(no_run) => match document_named(&door, run).await? {
            Some(id) => {
                let captured = read_document(&door, &id, None, &redaction).await?;
                (id, captured)
            }
            None => return Err(no_run),
        },
    };
    let folder = rooted.folder_to_write(session);
    let writer = folder.writer().map_err(failed)?;
    let written = writer.write_run(captured, name, &redaction);
    let written = written.map_err(failed)?;
    let kept = written.kept();
    if written.is_new() {
        key::sign(&writer, kept);
    }
    let mut data = Data::new();
    if !written.is_new() {
        talk::say("the run has no new event since it was captured");
    }
    match session.form {
        Form::Text => data.line(kept.path.display().to_string())?,
        Form::Json => data.json(&json!({
            "snapshot_id": kept.document.snapshot.snapshot_id,
            "path": kept.path,
            "run_id": id.as_str(),
            "new": written.is_new(),
        }))?,
    }
    data.done()?;
    Ok(Exit::Done)
}

/// The document with this name: a run that a browser recorded, by its id here or there.
async fn document_named(door: &Door, name: &RunName) -> Result<Option<StreamId>, Failure> {
    let query = ListQuery {
        kind: Some(StreamKind::Document),
        ..ListQuery::default()
    };
    let rows = lookup::pages(door, query, usize::MAX).await?;
    let mut meant = rows.iter().filter(|row| {
        let is_theirs = row.index.summary["id"].as_str() == Some(name.as_str());
        is_theirs || row.stream.as_str() == name.as_str()
    });
    match (meant.next(), meant.next()) {
        (Some(_), Some(_)) => Err(Failure::new(format!(
            "several workspaces have a run {}",
            quoted(name.as_str())
        ))
        .hint("give its local id, which starts with doc-")),
        (one, _) => Ok(one.map(|row| row.stream.clone())),
    }
}

/// Reads the data to write for a document, at a save or at the last one.
pub(super) async fn read_document(
    door: &Door,
    id: &StreamId,
    save: Option<u64>,
    redaction: &Redaction,
) -> Result<Captured, Failure> {
    let history = door.document_history(id).await?;
    let document = history.document();
    let number = save.unwrap_or(document.saves().len() as u64);
    let place = usize::try_from(number).unwrap_or_default().checked_sub(1);
    let record = place.and_then(|place| document.saves().get(place));
    let record = record.ok_or_else(|| Failure::new("the document has no such save"))?;
    let body = door.document_body(&history, number).await?;
    let mut redact = |value: &mut _| redaction.value(value);
    Ok(of_document(document.header(), record, &body, &mut redact))
}

/// Reads the data to write for a run.
pub(super) async fn read(
    door: &Door,
    id: &StreamId,
    redaction: &Redaction,
) -> Result<Captured, Failure> {
    let run = door.load(id).await?;
    let mut capture = RunCapture::default();
    for event in events(door, &run).await? {
        let mask = Mask::from_plan(&run.plan);
        capture.take(mask, &event, &mut |value| redaction.value(value));
    }
    let captured = capture.build(&run);
    captured.ok_or_else(|| Failure::new("this run has no event"))
}

/// The log of a run up to the read event.
pub(super) async fn events(door: &Door, run: &Run) -> Result<Vec<Event>, Failure> {
    let id = &run.header.stream;
    let mut events: Vec<Event> = Vec::new();
    while (events.len() as u64) < run.head.next_seq {
        let next = events.len() as u64;
        let left = usize::try_from(run.head.next_seq - next).unwrap_or(usize::MAX);
        let page = door.store().load(id, ReadFrom::Seq(next), PAGE.min(left));
        let page = page.await?;
        for record in &page.records {
            let event = serde_json::from_slice(&record.content)
                .map_err(|_| StoreError::Corrupt(format!("an event of run {id} cannot be read")))?;
            events.push(event);
        }
        if page.records.is_empty() {
            break;
        }
    }
    Ok(events)
}

/// The log of a run and those of its child runs, and the ids of those missing in this store.
pub(super) async fn family(door: &Door, run: &Run) -> Result<(Vec<Log>, Vec<StreamId>), Failure> {
    let (mut logs, mut missing) = (Vec::new(), Vec::new());
    let mut todo = VecDeque::from([run.header.stream.clone()]);
    while let Some(id) = todo.pop_front() {
        let run = match door.load(&id).await {
            Ok(run) => run,
            Err(StoreError::Missing) => {
                missing.push(id);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let events = events(door, &run).await?;
        let started = events.iter().filter_map(|event| match &event.body {
            RunEvent::NodeDispatched { child_run_id, .. } => Some(child_run_id.clone()),
            _ => None,
        });
        todo.extend(started);
        let origins = origins(door, &run).await?;
        logs.push(Log {
            run: id,
            origins,
            events,
            plan: run.plan.clone(),
        });
    }
    Ok((logs, missing))
}

/// A run and the sources it was forked from, as far as they are here.
async fn origins(door: &Door, run: &Run) -> Result<Vec<StreamId>, Failure> {
    let mut all = vec![run.header.stream.clone(), run.header.root().clone()];
    let mut origin = run.header.origin.clone();
    while let Some(from) = origin {
        all.extend([from.source.clone(), from.root]);
        origin = match door.load(&from.source).await {
            Ok(source) => source.header.origin.clone(),
            Err(StoreError::Missing) => None,
            Err(error) => return Err(error.into()),
        };
    }
    all.sort();
    all.dedup();
    Ok(all)
}
