//! A template as a picture.

use std::path::PathBuf;

use faces::player::compile::{self, Settings};
use runtime::plans::Plans;

use super::checks::Checked;
use super::templates;
use crate::data::write_or_print;
use crate::exit::{Exit, Failure};
use crate::faces_json::Picture;
use crate::session::Session;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright play graph hello                     Mermaid text
  runwright play graph hello -f svg -o hello.svg")]
pub(super) struct Args {
    /// The template: its name, its file, or - for standard input
    #[arg(value_name = "TEMPLATE")]
    template: String,

    /// The format of the picture
    #[arg(short, long, value_enum, default_value_t = Picture::Mermaid)]
    format: Picture,

    /// Write it to this file instead of printing it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Draws the plan of a template.
pub(super) fn run(args: &Args, session: &Session) -> Result<Exit, Failure> {
    let found = templates::find(&args.template, &session.place.project)?;
    let checked = Checked::check(&found, &Default::default())?;
    let settings = Settings {
        context: checked.template.context.keys().cloned().collect(),
        ..Settings::default()
    };
    let definition = compile::compile(&checked.template, &checked.plan, &settings);
    let document = serde_json::to_vec(&definition).expect("a definition is always JSON");
    let (plan, _) = Plans::new(session.nodes.clone())
        .compile(&document)
        .map_err(|problems| Failure::Problems {
            document: checked.path.clone(),
            problems,
        })?;
    let picture = args.format.draw(&plan, None);
    write_or_print(&picture, args.output.as_deref())?;
    Ok(Exit::Done)
}
