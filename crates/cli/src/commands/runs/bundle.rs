//! `runwright runs bundle`: a run in one document.

use std::io::Write;
use std::path::PathBuf;

use faces::openwop::v1::{Bundle, SPANS_BYTES};
use kernel::run::Event;
use runtime::private;
use runtime::redact::Redactor;
use runtime::telemetry;
use runtime::telemetry::spans::{shown, spans};
use serde_json::Value;
use store::{ReadFrom, StoreError};

use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::lookup::{self, RunName};
use crate::session::Session;
use crate::{talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright runs bundle last --output run.json
  runwright runs bundle last --max-events 100 | jq .run.error

State, events and annotations of a run as one JSON document of at most about 8 MiB, to pass on.
Larger content is left out, and `truncatedReason` reports it. The document contains inputs and
outputs, but no secrets.")]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    pub(crate) run: RunName,

    /// The most events
    #[arg(long, value_name = "N")]
    pub(crate) max_events: Option<usize>,

    /// Write it to this file, which must not exist yet, instead of printing it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes the bundle of a run of a store.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let door = session.read()?;
    let id = lookup::find(&door, &args.run).await?;
    let run = door.load_to_show(&id).await?;
    let notes = door.notes(&id).await?;
    let mut bundle = Bundle::new(&run, args.max_events.unwrap_or(usize::MAX));
    let end = usize::try_from(run.head.next_seq).unwrap_or(usize::MAX);
    let log = door.store().load(&id, ReadFrom::Seq(0), end).await?;
    let mut cause = None;
    let mut events = Vec::new();
    for record in &log.records {
        let event: Event = serde_json::from_slice(&record.content)
            .map_err(|_| StoreError::Corrupt(format!("an event of run {id} cannot be read")))?;
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
    save(&args, &document)
}

/// Prints or saves a bundle.
pub(crate) fn save(args: &Args, bundle: &Value) -> Result<Exit, Failure> {
    let Some(path) = &args.output else {
        let mut data = Data::new();
        data.json(bundle)?;
        data.done()?;
        return Ok(Exit::Done);
    };
    let fail = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failure::new(format!("{} exists already", path.display()))
                .hint("choose another name, or remove it first")
        }
        _ => Failure::file(path, &error),
    };
    let bytes = bundle.to_string().into_bytes();
    let file = private::file().write(true).create_new(true).open(path);
    let mut file = file.map_err(fail)?;
    file.write_all(&bytes).map_err(fail)?;
    file.sync_all().map_err(fail)?;
    talk::say(format!(
        "{}: {}",
        path.display(),
        text::bytes(bytes.len() as u64)
    ));
    Ok(Exit::Done)
}
