//! The options of every command that drives runs.

use crate::args::PortArgs;
use crate::live::{Detail, Live};
use crate::session::{Form, Session};

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
