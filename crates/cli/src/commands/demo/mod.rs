//! `runwright demo`: shows the purpose of the product in one command.
//!
//! Nothing is simulated: the server is this program in its own process, it receives requests over
//! HTTP with a key, and it is killed by `kill -9`.

mod client;
mod outcome;
mod stage;
mod watch;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::data::Data;
use crate::exit::{Exit, Failure, io_text};
use crate::session::{Form, Session};
use crate::{style, talk, text};

use client::Client;
use stage::{Server, Stage};
use watch::{Story, Until};

/// The workflow that is run: parallel processes that take some seconds.
const RUN: &str = "log-report";
/// The examples, from their source files.
const EXAMPLES: [&str; 5] = [
    include_str!("../../../../../examples/log-report.json"),
    include_str!("../../../../../examples/word-count.json"),
    include_str!("../../../../../examples/build-and-test.json"),
    include_str!("../../../../../examples/data-check.json"),
    include_str!("../../../../../examples/shop-report.json"),
];
/// Four times the duration of the demo on an idle machine.
const LONGEST: Duration = Duration::from_secs(180);

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Starts a server on a store in a temporary folder, runs a workflow of real \
processes on it, kills the server with SIGKILL in the middle, starts it again, and shows that the run \
continues without repeating what was finished. Takes about 20 seconds and needs a POSIX shell. \
Nothing outside the temporary folder is touched."
)]
pub(crate) struct Args {
    /// Keep the temporary folder, to look around in it
    #[arg(long)]
    keep: bool,
}

/// Shows it.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let mut stage = Stage::build()?;
    let shown = tokio::select! {
        shown = tokio::time::timeout(LONGEST, show(&mut stage, session.form)) => match shown {
            Ok(shown) => shown.map(|()| Exit::Done),
            Err(_) => Err(Failure::new("the demo takes too long").hint(
                "run `runwright doctor` to check this machine; --keep keeps the server's log",
            )),
        },
        () = told_to_stop()? => {
            talk::say("stopped; the server and its processes are gone");
            Ok(Exit::Interrupted)
        }
    };
    let folder = stage.folder().to_owned();
    stage.clear(args.keep).await;
    if args.keep {
        say_kept(&folder);
    }
    shown
}

/// Waits for Ctrl-C or a termination signal.
fn told_to_stop() -> Result<impl Future<Output = ()>, Failure> {
    let listen = |kind| signal(kind).map_err(|error| Failure::new(io_text(&error)));
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = listen(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}

async fn show(stage: &mut Stage, form: Form) -> Result<(), Failure> {
    let began = Instant::now();
    title("A server, a workflow of real processes, and a kill -9 in the middle.");
    let key = stage.key().await?;
    typed("runwright keys create");
    say(format!(
        "a key of the tenant `local`: {}",
        stage::shown(&key)
    ));

    // Workflows of the operator's folder may run programs; those registered by a tenant over HTTP
    // may not.
    stage.write_workflows(&EXAMPLES)?;
    typed("runwright serve --workflows examples");
    let server = stage.serve().await?;
    say_server(server);
    let client = Client::new(server.url(), &key)?;
    let run = client.create(RUN).await?;
    said(
        "POST /v1/runs",
        format!("{RUN} runs as {}", style::strong(&run)),
    );

    let mut story = Story::new(&run);
    story.follow(&client, Until::HalfWay).await?;
    let server_pid = server.pid();
    story.killed();
    stage.kill().await?;
    typed(&format!("kill -9 {server_pid}"));
    say(format!(
        "the server is gone in the middle of the run; finished: {}; in flight: {}",
        list(story.finished()),
        list(story.in_flight()),
    ));

    typed("runwright serve --workflows examples");
    let server = stage.serve().await?;
    say_server(server);
    say("the same store; it continues by itself");
    let client = Client::new(server.url(), &key)?;
    story.follow(&client, Until::Settled).await?;
    let snapshot = client.snapshot(&run).await?;
    let outcome = story.outcome(&snapshot)?;
    stage.stop().await?;

    match form {
        Form::Json => {
            let mut data = Data::new();
            data.json(&json!({
                "runId": run,
                "killedAtSequence": outcome.killed_at,
                "kept": outcome.kept,
                "restarted": outcome.restarted,
                "startedAfter": outcome.after,
                "processesStarted": outcome.starts,
                "tookMs": u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                "snapshot": snapshot,
            }))?;
            data.done()?;
        }
        Form::Text => {
            outcome.print(&snapshot)?;
            say_next(began.elapsed());
        }
    }
    Ok(())
}

fn title(text: &str) {
    talk::say(format!("{}\n", style::strong(text)));
}

/// A command that a user would type.
fn typed(line: &str) {
    talk::say(format!("{} {}", style::dim("$"), style::strong(line)));
}

fn said(request: &str, answer: String) {
    talk::say(format!("{} {}", style::dim(">"), style::strong(request)));
    say(answer);
}

fn say(text: impl AsRef<str>) {
    talk::say(format!("  {}", text.as_ref()));
}

fn say_server(server: &Server) {
    say(format!(
        "process {} answers at {}",
        server.pid(),
        server.url()
    ));
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() {
        "nothing".to_owned()
    } else {
        names.join(", ")
    }
}

fn say_next(took: Duration) {
    talk::say(format!(
        "\nThat took {}. Next steps:
  runwright run examples/log-report.json      the same without a server; press Ctrl-C, then
  runwright resume                            continue it
  examples/README.md                          workflows to run, read and change
  runwright demo --keep                       the demo again; keeps the store for inspection
  runwright serve --data DIR --workflows examples --dev
                                              a server of your own",
        text::duration(took)
    ));
    if let Ok(program) = std::env::current_exe() {
        talk::say(format!(
            "If `runwright` is not found, type {} instead.",
            program.display()
        ));
    }
}

fn say_kept(folder: &Path) {
    let data = folder.join("data");
    let data = data.display();
    talk::say(format!(
        "\nKept in {}. Look around:
  runwright runs show last --data {data}
  runwright events last --data {data}
  runwright workflow graph --run last -f svg -o run.svg --data {data}
  runwright verify --data {data}
  runwright audit list --data {data}",
        folder.display()
    ));
}
