//! `runwright store copy`.

use std::borrow::Cow;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, json};
use store::whole::{CopyError, Opening, Part, copy};

use super::Site;
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright store copy --from .runwright --to postgres://runwright@db.internal/runwright
  runwright store copy --from postgres://runwright@db.internal/runwright --to laptop

Stop every server of the source first. Events keep their positions, times and hash chains. A copy
that was interrupted continues when the command is repeated; until it is finished, no other command
opens the destination. At the end every row of both stores is compared, and every log of the copy is
checked against its hash chain.

The files next to a store in a folder are not part of it: keyring.json, secrets, attempts and
snapshots. Copy them to the data folder of the new store.")]
pub(crate) struct Args {
    /// The folder or the database URL of the store
    #[arg(long, value_name = "STORE")]
    from: String,

    /// The folder or the database URL of the new store
    #[arg(long, value_name = "STORE")]
    to: String,
}

/// Copies a store.
pub(super) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let (from, to) = (Site::parse(&args.from)?, Site::parse(&args.to)?);
    if from.name() == to.name() {
        return Err(Failure::new("--from and --to name the same store").hint("name a new one"));
    }
    let source = from.open(Opening::Source).await?;
    let destination = to.open(Opening::Destination).await?;
    let bar = bar();
    let mut report = |part: Part, rows| {
        bar.set_message(part.name());
        bar.inc(rows as u64);
    };
    let copied = copy(&*source, &*destination, &mut report).await;
    bar.finish_and_clear();
    let copied = copied.map_err(failure)?;
    let mut data = Data::new();
    match session.form {
        Form::Json => {
            let rows: Map<_, _> = (copied.rows.iter())
                .map(|(part, rows)| (part.name().to_owned(), json!(rows)))
                .collect();
            data.json(&json!({ "from": from.name(), "to": to.name(), "rows": rows }))?;
        }
        Form::Text => {
            let count = |of: Part| {
                let found = copied.rows.iter().find(|(part, _)| *part == of);
                usize::try_from(found.map_or(0, |(_, rows)| *rows)).unwrap_or(usize::MAX)
            };
            let (streams, events) = (count(Part::Streams), count(Part::Events));
            data.line(format!(
                "{} {}: {} with {}, compared and checked",
                style::good("copied"),
                to.name(),
                text::count(streams, "log"),
                text::count(events, "event")
            ))?;
        }
    }
    data.done()?;
    if let Some(folder) = from.folder() {
        talk::say(format!(
            "{} copy keyring.json and secrets from {} to the data folder of the new store",
            style::dim("next:"),
            folder.display()
        ));
    }
    Ok(Exit::Done)
}

fn bar() -> ProgressBar {
    if !talk::is_drawable() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {pos} rows  {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    ProgressBar::new_spinner().with_style(style)
}

fn failure(error: CopyError) -> Failure {
    let hint = match &error {
        CopyError::Store(_) => Cow::from("repeat the command: the copy continues where it stopped"),
        CopyError::Unsound(finding) => match &finding.stream {
            Some(stream) => Cow::from(format!(
                "`runwright verify --run {stream}` on the source shows more"
            )),
            None => Cow::from("`runwright verify` on the source shows more"),
        },
        _ => return Failure::new(error.to_string()),
    };
    Failure::new(error.to_string()).hint(hint)
}
