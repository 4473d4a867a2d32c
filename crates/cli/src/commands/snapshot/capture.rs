//! `runwright snapshot capture`.

use super::{Rooted, from_run};
use crate::exit::{Exit, Failure};
use crate::lookup::RunName;
use crate::session::Session;

/// What can be typed.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(long, value_name = "RUN")]
    run: RunName,

    /// A name to find the snapshot by
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    #[command(flatten)]
    rooted: Rooted,
}

/// Captures what was asked for.
pub(super) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    from_run::capture(&args.run, args.name, &args.rooted, session).await
}
