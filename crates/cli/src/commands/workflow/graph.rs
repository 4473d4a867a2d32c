//! `runwright workflow graph`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use kernel::definition::Plan;
use kernel::run::Run;
use runtime::plans::Plans;

use crate::data::Data;
use crate::document::Source;
use crate::exit::{Exit, Failure};
use crate::faces_json;
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

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Picture {
    /// Text that Markdown viewers draw
    Mermaid,
    /// An SVG picture
    Svg,
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

    fn as_text(&self, picture: Picture) -> String {
        let (plan, run) = self.parts();
        match picture {
            Picture::Mermaid => faces_json::mermaid(plan, run),
            Picture::Svg => faces_json::svg(plan, run),
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
        drawn.as_text(args.format.unwrap_or(Picture::Mermaid))
    };
    match &args.output {
        Some(path) => {
            std::fs::write(path, picture).map_err(|error| Failure::file(path, &error))?;
        }
        None => {
            let mut data = Data::new();
            data.line(picture.trim_end())?;
            data.done()?;
        }
    }
    Ok(Exit::Done)
}
