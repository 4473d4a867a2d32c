//! `runwright events`: the events of a run, from its log alone.

use std::sync::Arc;

use faces::Mask;
use faces::transcript::Line;
use kernel::definition::Plan;
use kernel::ids::Seq;
use kernel::run::Event;
use kernel::stream::StreamHeader;
use runtime::door::Door;
use store::{ReadFrom, StoreError};

use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::lookup::{self, RunName};
use crate::session::{Form, Session};
use crate::text::Days;
use crate::{faces_json, style, text};

/// Events read at a time.
const PAGE: usize = 1_000;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright events last
  runwright events 1f0c9a2b --type node.failed --type node.retried
  runwright events 1f0c9a2b --after 120 --json | jq .payload

No engine is needed, and one may be writing meanwhile.")]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    pub(crate) run: RunName,

    /// Only events after this sequence
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<Seq>,

    /// The most events
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,

    /// Only events of this type; may be given several times
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) types: Vec<String>,
}

/// Which events to print.
pub(super) struct Wanted {
    types: Vec<String>,
    left: usize,
    days: Days,
}

impl Wanted {
    /// Events of some types, or of all if none is named; at most `limit`.
    pub(super) fn new(types: Vec<String>, limit: Option<usize>) -> Result<Self, Failure> {
        let known = faces_json::event_types();
        for wanted in &types {
            if !known.contains(&wanted.as_str()) {
                let failure = Failure::new(format!(
                    "unknown event type {}",
                    kernel::problem::quoted(wanted)
                ));
                let meant = kernel::problem::closest(wanted, known.iter().copied());
                return Err(match meant {
                    Some(meant) => failure.hint(format!("did you mean {meant}?")),
                    None => failure.hint("`runwright events RUN` shows the types of a run"),
                });
            }
        }
        Ok(Self {
            types,
            left: limit.unwrap_or(usize::MAX),
            days: Days::after(text::now()),
        })
    }

    /// Whether the limit is reached.
    pub(super) fn is_done(&self) -> bool {
        self.left == 0
    }
}

/// Prints the events of a run.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let mut wanted = Wanted::new(args.types, args.limit)?;
    let door = session.read()?;
    let run = lookup::find(&door, &args.run).await?;
    let mut data = Data::new();
    let mut reader = Reader::new(&door, run, args.after).await?;
    while !wanted.is_done() {
        let page = reader.page().await?;
        if page.is_empty() {
            break;
        }
        let of = (&reader.header, &*reader.plan);
        print(&mut data, session.form, of, &page, &mut wanted)?;
    }
    data.done()?;
    Ok(Exit::Done)
}

/// Reads a log from a sequence on.
pub(super) struct Reader<'a> {
    door: &'a Door,
    /// The header of the log.
    pub(super) header: StreamHeader,
    /// The plan of its run, for the mask.
    pub(super) plan: Arc<Plan>,
    next: Seq,
    cause: Option<Seq>,
}

impl<'a> Reader<'a> {
    /// Reads after `after`, or from the first event.
    pub(super) async fn new(
        door: &'a Door,
        run: kernel::ids::StreamId,
        after: Option<Seq>,
    ) -> Result<Self, Failure> {
        let header = door
            .store()
            .load(&run, ReadFrom::Seq(u64::MAX), 0)
            .await?
            .header;
        let next = after.map_or(0, |after| after.saturating_add(1));
        Ok(Self {
            door,
            plan: door.plan_of(&header).await?,
            header,
            next,
            cause: None,
        })
    }

    /// The next events, each with its cause; empty at the current end of the log.
    pub(super) async fn page(&mut self) -> Result<Vec<(Event, Option<Seq>)>, Failure> {
        let from = ReadFrom::Seq(self.next);
        let loaded = self
            .door
            .store()
            .load(&self.header.stream, from, PAGE)
            .await?;
        let mut page = Vec::with_capacity(loaded.records.len());
        for record in &loaded.records {
            let event: Event = serde_json::from_slice(&record.content).map_err(|error| {
                let (run, seq) = (&self.header.stream, self.next);
                StoreError::Corrupt(format!("event {seq} of run {run} cannot be read: {error}"))
            })?;
            if event.cause.is_some() {
                self.cause = Some(event.seq);
            }
            self.next += 1;
            page.push((event, self.cause));
        }
        Ok(page)
    }
}

/// Prints events that are wanted.
pub(super) fn print(
    data: &mut Data,
    form: Form,
    (header, plan): (&StreamHeader, &Plan),
    events: &[(Event, Option<Seq>)],
    wanted: &mut Wanted,
) -> Result<(), Failure> {
    let mask = Mask::from_plan(plan);
    for (event, cause) in events {
        if wanted.is_done() {
            break;
        }
        let line = faces::transcript::line(mask, event);
        if !wanted.types.is_empty() && !wanted.types.iter().any(|kind| kind == line.kind) {
            continue;
        }
        wanted.left -= 1;
        match form {
            Form::Json => data.json_line(&faces_json::event(header, mask, event, *cause))?,
            Form::Text => {
                if let Some(day) = wanted.days.turn(event.at) {
                    data.line(style::dim(day))?;
                }
                data.line(line_of(event.seq, &line))?;
            }
        }
    }
    Ok(())
}

/// An event on a line, in columns and colours.
pub(crate) fn line_of(seq: Seq, line: &Line) -> String {
    let kind = format!("{:<27}", line.kind);
    let kind = match line.kind.rsplit('.').next() {
        Some("completed" | "resolved") => style::good(kind),
        Some("failed" | "dead_lettered" | "breached" | "diverged") => style::bad(kind),
        Some("restarted" | "resuming" | "retried" | "cancelled" | "paused") => style::warn(kind),
        Some("chunk") => style::dim(kind),
        _ => kind,
    };
    let node = line.node.as_deref().unwrap_or_default();
    let time = style::dim(&line.time);
    let text = format!("{seq:>5}  {time}  {kind} {node:<14} {}", line.text);
    text.trim_end().to_owned()
}
