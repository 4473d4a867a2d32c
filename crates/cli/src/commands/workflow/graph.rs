//! `runwright workflow graph`.

use std::path::PathBuf;
use std::sync::Arc;

use kernel::definition::Plan;
use kernel::run::Run;
use runtime::plans::Plans;

use crate::data::write_or_print;
use crate::document::Source;
use crate::exit::{Exit, Failure};
use crate::faces_json::{self, Picture};
use crate::lookup::{self, RunName};
use crate::session::{Form, Session};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright workflow graph build.json                       Mermaid text
  runwright workflow graph build.json -f svg -o build.svg
  runwright workflow graph --run last -f svg -o run.svg     coloured by the status of each node
  runwright workflow graph build.json --json                its nodes and edges")]
pub(crate) struct Args {
    /// The workflow definition; - for standard input
    #[arg(
        value_name = "FILE",
        required_unless_present = "run",
        conflicts_with = "run"
    )]
    file: Option<String>,

    /// Draw this run with the status of its nodes
    #[arg(long, value_name = "RUN")]
    run: Option<RunName>,

    /// The format of the picture [default: mermaid]
    #[arg(short, long, value_enum)]
    format: Option<Picture>,

    /// Write it to this file instead of printing it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The source of a picture.
enum Drawn {
    Plan(Arc<Plan>),
    Run(Run),
}

impl Drawn {
    async fn draw(args: &Args, session: &Session) -> Result<Self, Failure> {
        if let Some(name) = &args.run {
            let door = session.read()?;
            let run = lookup::find(&door, name).await?;
            return Ok(Self::Run(door.load(&run).await?));
        }
        let source = Source::from(args.file.as_deref().unwrap_or("-"));
        let compiled = Plans::new(session.nodes.clone()).compile(&source.read()?);
        match compiled {
            Ok((plan, _)) => Ok(Self::Plan(plan)),
            Err(problems) => Err(Failure::Problems {
                document: source.name(),
                problems,
            }),
        }
    }

    fn parts(&self) -> (&Plan, Option<&Run>) {
        match self {
            Self::Plan(plan) => (plan, None),
            Self::Run(run) => (&run.plan, Some(run)),
        }
    }

    fn as_json(&self) -> String {
        let (plan, run) = self.parts();
        faces_json::graph(plan, run).to_string()
    }
}

/// Draws a definition or a run.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let is_json = session.form == Form::Json;
    if is_json && args.format.is_some() {
        let what = "--json prints nodes and edges, --format a picture; give only one";
        return Err(Failure::new(what).hint("remove one of them"));
    }
    let drawn = Drawn::draw(&args, session).await?;
    let picture = if is_json {
        drawn.as_json()
    } else {
        let (plan, run) = drawn.parts();
        args.format.unwrap_or(Picture::Mermaid).draw(plan, run)
    };
    write_or_print(&picture, args.output.as_deref())?;
    Ok(Exit::Done)
}
