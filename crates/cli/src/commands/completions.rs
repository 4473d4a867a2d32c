//! `runwright completions`: a shell's completion script for the commands and options.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright completions bash > ~/.local/share/bash-completion/completions/runwright
  runwright completions zsh > ~/.zfunc/_runwright
  runwright completions fish > ~/.config/fish/completions/runwright.fish")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    if session.form == Form::Json {
        let what = "a completion script is for a shell and has no JSON form";
        return Err(Failure::new(what).hint("remove --json"));
    }
    let mut script = Vec::new();
    let mut command = super::Cli::command();
    clap_complete::generate(args.shell, &mut command, "runwright", &mut script);
    let mut data = Data::new();
    data.bytes(&script)?;
    data.done()?;
    Ok(Exit::Done)
}
