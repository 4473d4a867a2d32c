//! The snapshot of a run of the store.

use faces::provenance::capture::{Captured, RunCapture};
use faces::provenance::seal::seal;
use kernel::ids::StreamId;
use kernel::run::Event;
use provenance::Redaction;
use runtime::door::Door;
use serde_json::json;
use store::{ReadFrom, StoreError};

use super::{Rooted, failed};
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::lookup::{self, RunName};
use crate::session::{Form, Session};

/// Events read at a time.
const PAGE: usize = 1_000;

/// Captures a run and prints where its snapshot lies.
pub(super) async fn capture(
    run: &RunName,
    name: Option<String>,
    rooted: &Rooted,
    session: &Session,
) -> Result<Exit, Failure> {
    let door = session.read()?;
    let id = lookup::find(&door, run).await?;
    let redaction = Redaction::of_environment(std::env::vars());
    let mut captured = read(&door, &id, &redaction).await?;
    captured.snapshot.extend().name = name;
    let folder = rooted.folder(session);
    let writer = folder.writer().map_err(failed)?;
    for body in &captured.bodies {
        writer.put_blob(body.as_bytes()).map_err(failed)?;
    }
    let mut draft = captured.snapshot;
    draft.extend().redaction = Some(redaction.counted());
    let sealed = seal(draft, &mut |value| redaction.value(value));
    let sealed =
        sealed.map_err(|error| Failure::new(format!("no snapshot came of it: {error}")))?;
    let kept = writer.write(&sealed, &captured.calls).map_err(failed)?;
    let mut data = Data::new();
    match session.form {
        Form::Text => data.line(kept.path.display().to_string())?,
        Form::Json => data.json(&json!({
            "snapshot_id": sealed.snapshot_id,
            "path": kept.path,
            "run_id": id.as_str(),
        }))?,
    }
    data.done()?;
    Ok(Exit::Done)
}

/// What is to be written of a run.
pub(super) async fn read(
    door: &Door,
    id: &StreamId,
    redaction: &Redaction,
) -> Result<Captured, Failure> {
    let run = door.load(id).await?;
    let mut capture = RunCapture::default();
    let mut next = 0;
    while next < run.head.next_seq {
        let left = usize::try_from(run.head.next_seq - next).unwrap_or(usize::MAX);
        let page = door.store().load(id, ReadFrom::Seq(next), PAGE.min(left));
        let page = page.await?;
        for record in &page.records {
            let event: Event = serde_json::from_slice(&record.content)
                .map_err(|_| StoreError::Corrupt(format!("an event of run {id} cannot be read")))?;
            capture.take(&event, &mut |value| redaction.value(value));
            next += 1;
        }
        if page.records.is_empty() {
            break;
        }
    }
    let captured = capture.build(&run);
    captured.ok_or_else(|| Failure::new("nothing has happened in this run"))
}
