//! `runwright console`: the pages of a server in the browser.

use std::io::IsTerminal;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::remote::Remote;
use crate::session::{Form, Session};
use crate::talk;

/// The address that `serve` takes by default.
const USUAL: &str = "http://127.0.0.1:8080";
/// Programs that open an address, by system.
const OPENERS: [&str; 2] = ["xdg-open", "open"];

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright console
  runwright console --server https://runs.example.org

Prints the address, and opens it where standard output is a terminal. Without --server it is that of
a server on this machine, http://127.0.0.1:8080. The page asks for a key unless the server was
started with --dev.")]
pub(crate) struct Args {}

/// Prints the address of the console and opens it.
pub(crate) async fn run(_: Args, session: &Session) -> Result<Exit, Failure> {
    let usual;
    let remote = match &session.remote {
        Some(remote) => remote,
        None => {
            usual = Remote::new(USUAL, None)?;
            &usual
        }
    };
    let address = remote.address();
    // Before a browser shows an error that explains less.
    remote.get("/readyz").await.map_err(|failure| {
        failure.hint(format!(
            "start a server with `runwright serve`, or name another one than {address} with --server"
        ))
    })?;
    let url = format!("{address}/console");
    let mut data = Data::new();
    match session.form {
        Form::Text => data.line(&url)?,
        Form::Json => data.json(&json!({ "url": url }))?,
    }
    data.done()?;
    if session.form == Form::Text && std::io::stdout().is_terminal() && !open(&url) {
        talk::say("no program opened the address; open it in a browser");
    }
    Ok(Exit::Done)
}

/// Whether a program of the system took the address.
fn open(url: &str) -> bool {
    OPENERS.iter().any(|program| {
        let mut command = Command::new(program);
        command.arg(url);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}
