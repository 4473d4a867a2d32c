//! `runwright runs note`: annotates a run.

use kernel::ids::{NodeId, Seq};
use kernel::notes::{self, Signal};
use serde_json::Value;

use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::lookup::RunName;
use crate::session::{Form, Session};
use crate::target::{self, Intent, NewNote, Purpose};
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
    run: RunName,

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
}

/// Annotates a run, or lists its annotations.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let Some(signal) = args.signal() else {
        let target = target::open(session, Intent::Read).await?;
        let run = target.find(&args.run, Purpose::Use).await?;
        return print(session, &target.notes(&run).await?);
    };
    let target = target::open(session, Intent::Write).await?;
    let run = target.find(&args.run, Purpose::Use).await?;
    let note = NewNote {
        target: notes::Target {
            event_seq: args.event,
            node_id: args.node.map(NodeId::from),
        },
        signal,
        note: args.note,
    };
    print(session, &[target.annotate(&run, note).await?])
}

/// Shows annotations in the protocol's form, one per line.
fn print(session: &Session, said: &[Value]) -> Result<Exit, Failure> {
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
