//! The options of every command that drives runs.

use kernel::ids::StreamId;
use runtime::door::Door;

use crate::args::PortArgs;
use crate::exit::Failure;
use crate::live::{Detail, Live};
use crate::lookup::short;
use crate::session::{Form, Session};
use crate::target::served_by;
use crate::{style, talk};

/// Whether a command drives the run that it creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    /// This process does.
    Here,
    /// Another one, with its own options.
    Elsewhere,
}

impl Driver {
    /// That of a command with or without `--detach`.
    pub(crate) fn for_detach(is_detached: bool) -> Self {
        if is_detached {
            Self::Elsewhere
        } else {
            Self::Here
        }
    }

    /// Refuses what cannot take effect next to a server: it drives every run of its store, with its
    /// own providers, secrets and limits.
    pub(crate) async fn check(self, session: &Session, door: &Door) -> Result<(), Failure> {
        if served_by(session, door).await?.is_none() {
            return Ok(());
        }
        match self {
            Self::Elsewhere => PortArgs::refuse_typed(),
            Self::Here => Err(Failure::new("a server drives the runs of this store").hint(
                "--detach leaves the run to the server, --server URL also shows its progress; \
                 --data with another folder runs it here",
            )),
        }
    }
}

/// Names the process that drives a new run.
pub(crate) async fn say_next(
    session: &Session,
    door: &Door,
    run: &StreamId,
) -> Result<(), Failure> {
    let id = short(run);
    let next = style::dim("next:");
    talk::say(match served_by(session, door).await? {
        Some(server) => {
            format!("{next} {server} drives it; `runwright runs tail {id}` follows it")
        }
        None => format!("{next} `runwright resume {id}` drives it"),
    });
    Ok(())
}

/// As typed.
#[derive(clap::Args, Debug)]
pub(crate) struct DriveArgs {
    /// Also show the output of processes
    #[arg(short, long, conflicts_with_all = ["quiet", "json"])]
    watch: bool,

    /// Print nothing before the end
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    pub(crate) ports: PortArgs,
}

impl DriveArgs {
    /// Whether output is suppressed until the end.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// The display during the run.
    pub(crate) fn live(&self, session: &Session) -> Live {
        match (session.form, self.quiet, self.watch) {
            (Form::Json, ..) => Live::for_programs(),
            (Form::Text, true, _) => Live::for_people(Detail::Quiet),
            (Form::Text, _, true) => Live::for_people(Detail::Output),
            (Form::Text, ..) => Live::for_people(Detail::Nodes),
        }
    }
}
