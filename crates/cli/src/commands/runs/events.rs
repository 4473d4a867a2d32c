//! `runwright events`: the events of a run, from its log alone.

use kernel::ids::Seq;
use kernel::problem::{closest, quoted};

use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::lookup::RunName;
use crate::session::{Form, Session};
use crate::target::{self, Cursor, EventLine, Intent, Purpose, Target};
use crate::text::Days;
use crate::{style, text};

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
    run: RunName,

    /// Only events after this sequence
    #[arg(long, value_name = "SEQ")]
    after: Option<Seq>,

    /// The most events
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// Only events of this type; may be given several times
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
}

/// Which events to print, and how.
pub(super) struct Printer {
    data: Data,
    form: Form,
    types: Vec<String>,
    left: usize,
    days: Days,
}

impl Printer {
    /// Prints events of some types, or of all if none is named; at most `limit`.
    pub(super) fn new(
        target: &dyn Target,
        form: Form,
        types: Vec<String>,
        limit: Option<usize>,
    ) -> Result<Self, Failure> {
        let known = target.event_types();
        for wanted in &types {
            let Some(known) = known.filter(|known| !known.contains(&wanted.as_str())) else {
                continue;
            };
            let what = format!("unknown event type {}", quoted(wanted));
            let meant = closest(wanted, known.iter().copied());
            return Err(Failure::new(what).hint(match meant {
                Some(meant) => format!("did you mean {meant}?"),
                None => "`runwright events RUN` shows the types of a run".to_owned(),
            }));
        }
        Ok(Self {
            data: Data::new(),
            form,
            types,
            left: limit.unwrap_or(usize::MAX),
            days: Days::after(text::now()),
        })
    }

    /// Prints the events that are wanted.
    pub(super) fn print(&mut self, events: &[EventLine]) -> Result<(), Failure> {
        let types = &self.types;
        let is_wanted = |event: &&EventLine| {
            let mut names = [Some(event.kind.as_str()), event.native]
                .into_iter()
                .flatten();
            types.is_empty() || names.any(|name| types.iter().any(|wanted| wanted == name))
        };
        for event in events.iter().filter(is_wanted).take(self.left) {
            self.left -= 1;
            if let (Form::Text, Some(at)) = (self.form, event.at)
                && let Some(day) = self.days.turn(at)
            {
                self.data.line(style::dim(day))?;
            }
            self.data.line(&event.text)?;
        }
        self.data.flush()
    }
}

/// Prints the events of a run.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let target = target::open(session, Intent::Read).await?;
    let mut printer = Printer::new(&*target, session.form, args.types, args.limit)?;
    let run = target.find(&args.run, Purpose::Use).await?;
    let mut cursor = Cursor::new(run, args.after);
    while printer.left > 0 {
        let events = target.events(&mut cursor, session.form).await?;
        if events.is_empty() {
            break;
        }
        printer.print(&events)?;
    }
    Ok(Exit::Done)
}
