//! `runwright runs note`: annotates a run.

use faces::openwop::v1;
use kernel::audit::Actor;
use kernel::ids::{NodeId, Seq};
use kernel::notes::{Annotate, Signal, Target};
use runtime::door::NotesError;
use runtime::redact::Redactor;
use serde_json::{Value, json};

use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::lookup::{self, RunName};
use crate::session::{Form, Session};
use crate::{style, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright runs note last --rating 4 --note 'almost what I wanted'
  runwright runs note last --flag --node fetch
  runwright runs note last                     shows the notes

Notes are stored next to the log of the run, which does not change. They are deleted when the run is
purged, and a fork has none.")]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    pub(crate) run: RunName,

    #[command(flatten)]
    said: SaidArgs,

    /// The node to annotate
    #[arg(long, value_name = "ID", requires = "SaidArgs")]
    node: Option<String>,

    /// The event to annotate
    #[arg(long, value_name = "SEQ", requires = "SaidArgs")]
    event: Option<Seq>,

    /// The text of the note
    #[arg(long, value_name = "TEXT", requires = "SaidArgs")]
    note: Option<String>,
}

#[derive(clap::Args, Debug)]
#[group(multiple = false)]
struct SaidArgs {
    /// A rating from 1 to 5
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=5))]
    rating: Option<u8>,

    /// A label
    #[arg(long, value_name = "WORD")]
    label: Option<String>,

    /// The correct result
    #[arg(long, value_name = "TEXT")]
    correction: Option<String>,

    /// Flag it for review
    #[arg(long)]
    flag: bool,
}

impl Args {
    /// The annotation, if there is one.
    fn signal(&self) -> Option<Signal> {
        let SaidArgs {
            rating,
            label,
            correction,
            flag,
        } = &self.said;
        let rating = rating.map(|rating| Signal::Rating { rating });
        let label = label.clone().map(|label| Signal::Label { label });
        let correction = correction.clone();
        let correction = correction.map(|correction| Signal::Correction { correction });
        rating
            .or(label)
            .or(correction)
            .or(flag.then_some(Signal::Flag))
    }

    /// The same in the protocol's form; `None` without an annotation.
    pub(crate) fn body(&self, run: &str) -> Option<Value> {
        let signal = self.signal()?;
        let mut body = json!({ "signal": signal, "target": {} });
        if let Some(node) = &self.node {
            body["target"]["nodeId"] = json!(node);
        }
        if let Some(seq) = self.event {
            body["target"]["eventId"] = json!(format!("{run}.{seq}"));
        }
        if let Some(note) = &self.note {
            body["note"] = json!(note);
        }
        Some(body)
    }
}

/// Annotates a run of a store, or lists its annotations.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let Some(signal) = args.signal() else {
        let door = session.read()?;
        let run = lookup::find(&door, &args.run).await?;
        let said = door.notes(&run).await?;
        let said: Vec<Value> = said.iter().map(v1::annotation).collect();
        return print(session, &said);
    };
    let door = session.write()?;
    let run = lookup::find(&door, &args.run).await?;
    let state = door.load(&run).await?;
    if args.event.is_some_and(|seq| seq >= state.head.next_seq) {
        let events = text::count(state.head.next_seq as usize, "event");
        return Err(Failure::new(format!("the run has {events}")));
    }
    let node = args.node.as_deref();
    if node.is_some_and(|node| state.plan.node_ix(node).is_none()) {
        let what = "the run's workflow has no such node";
        return Err(Failure::new(what).hint("`runwright runs show` lists its nodes"));
    }
    let redactor = Redactor::masking();
    let clean = |text: String| redactor.text(&text).into_owned();
    let said = Annotate {
        target: Target {
            event_seq: args.event,
            node_id: node.map(NodeId::new),
        },
        signal: match signal {
            Signal::Label { label } => Signal::Label {
                label: clean(label),
            },
            Signal::Correction { correction } => Signal::Correction {
                correction: clean(correction),
            },
            signal @ (Signal::Rating { .. } | Signal::Flag) => signal,
        },
        note: args.note.clone().map(clean),
        by: Actor::operator(),
    };
    let noted = door
        .annotate(&run, &state.header.owner, said, |_| None)
        .await;
    let noted = noted.map_err(|error| match error {
        NotesError::Rejected(rejection) => Failure::new(rejection.to_string()),
        NotesError::Store(error) => error.into(),
    })?;
    runtime::access::trail::deliver(&**door.store()).await?;
    print(session, &[v1::annotation(&noted)])
}

/// Shows annotations in the protocol's form, one per line.
pub(crate) fn print(session: &Session, said: &[Value]) -> Result<Exit, Failure> {
    let mut data = Data::new();
    for annotation in said {
        if session.form == Form::Json {
            data.json_line(annotation)?;
            continue;
        }
        let word = |value: &Value, width| text::one_line(value.as_str().unwrap_or_default(), width);
        let (signal, target) = (&annotation["signal"], &annotation["target"]);
        let kind = word(&signal["kind"], 20);
        let value = match &signal[kind.as_str()] {
            Value::Null => String::new(),
            Value::String(text) => format!(" {}", text::one_line(text, 200)),
            other => format!(" {other}"),
        };
        let of = [&target["nodeId"], &target["eventId"]].map(|part| word(part, 80));
        let of = of.join(" ");
        let line = format!(
            "{}  {}{value}  {}  {}  {}",
            style::dim(word(&annotation["createdAt"], 30)),
            style::strong(kind),
            of.trim(),
            word(&annotation["note"], 200),
            style::dim(word(&annotation["actor"]["principalRef"], 40)),
        );
        data.line(line.trim_end())?;
    }
    data.done()?;
    Ok(Exit::Done)
}
