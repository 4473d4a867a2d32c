//! `runwright runs bundle`: a run in one document.

use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::artifact::new_file;
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::lookup::RunName;
use crate::session::Session;
use crate::target::{self, Intent, Purpose};
use crate::{talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright runs bundle last --output run.json
  runwright runs bundle last --max-events 100 | jq .run.error
  runwright runs bundle last --html --output run.html

State, events and annotations of a run as one JSON document of at most about 8 MiB, to pass on.
Larger content is left out, and `truncatedReason` reports it. The document contains inputs and
outputs, but no secrets. With --html it is a page of the console in one file, which needs neither a
server nor a network.")]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    run: RunName,

    /// The most events
    #[arg(long, value_name = "N")]
    max_events: Option<usize>,

    /// Make a page that shows the run in a browser
    #[arg(long)]
    html: bool,

    /// Write it to this file, which must not exist yet, instead of printing it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Prints or saves the bundle of a run.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let target = target::open(session, Intent::Read).await?;
    let run = target.find(&args.run, Purpose::Use).await?;
    let bundle = target.bundle(&run, args.max_events).await?;
    let page = if args.html {
        Some(page(&bundle, target.graph(&run).await?))
    } else {
        None
    };
    let Some(path) = &args.output else {
        let mut data = Data::new();
        match &page {
            Some(page) => data.bytes(page.as_bytes())?,
            None => data.json(&bundle)?,
        }
        data.done()?;
        return Ok(Exit::Done);
    };
    let bytes = page.unwrap_or_else(|| bundle.to_string()).into_bytes();
    let mut file = new_file(path)?;
    file.write_all(&bytes)
        .and_then(|()| file.sync_all())
        .map_err(|error| Failure::file(path, &error))?;
    talk::say(format!(
        "{}: {}",
        path.display(),
        text::bytes(bytes.len() as u64)
    ));
    Ok(Exit::Done)
}

/// The page of a bundle.
fn page(bundle: &Value, graph: Option<Value>) -> String {
    let mut run = bundle["run"].clone();
    // A bundle has fewer words for a status than a run.
    if let Some(status) = bundle["run"].get("runStatus") {
        run["status"] = status.clone();
    }
    server::offline_page(&json!({
        "run": run,
        "events": bundle["events"],
        "graph": graph,
        "madeAt": bundle["generatedAt"],
        "note": bundle.get("truncatedReason"),
    }))
}
