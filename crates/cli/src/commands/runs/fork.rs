//! `runwright runs fork`: a new run from the beginning of a recorded one.

use clap::ValueEnum;
use kernel::fork::ForkError;
use kernel::ids::{Seq, StreamId};
use kernel::replay::Divergence;
use kernel::run::{Overlay, Run};
use kernel::stream::ForkMode;
use runtime::{ForkFailed, ForkSpec};
use serde_json::json;

use super::super::DriveArgs;
use super::super::drive_args::{Driver, say_next};
use super::replay;
use crate::args::PortArgs;
use crate::data::Data;
use crate::driving::{self, Until};
use crate::exit::{Exit, Failure};
use crate::follow::Follower;
use crate::lookup::{self, RunName, short};
use crate::prompt::Prompt;
use crate::remote::Remote;
use crate::session::{Form, Session};
use crate::target::{self, Cursor, Purpose, Server, Target as _};
use crate::{compose, faces_json, style, talk};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright runs fork last --at 12             again from event 12
  runwright runs fork 1f0c9a2b --at 0 --tag retry
  runwright runs fork last --mode replay       repeat it without running anything

Events below SEQ are copied. A branch continues from there for real: nodes that were in flight there
start again, with other attempt keys. `runwright events RUN` shows the sequences.

A replay repeats the rest of the log from its recorded outcomes; no node runs. It exits with 1 if a
decision differs from the log; `runwright runs replay` checks this without making a run.")]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    run: RunName,

    /// Copy the events below this sequence [default: all for a branch, of a run that has not ended;
    /// none for a replay]
    #[arg(long, value_name = "SEQ")]
    at: Option<Seq>,

    /// Whether to continue for real or to repeat
    #[arg(long, value_name = "MODE", default_value = "branch")]
    mode: Mode,

    /// A tag of the branch, in place of the source's; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,

    /// Only make the branch and print its id; `runwright resume` drives it
    #[arg(long, conflicts_with_all = ["watch", "quiet"])]
    detach: bool,

    #[command(flatten)]
    drive: DriveArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    /// Continue from there for real
    Branch,
    /// Repeat the rest from the recorded outcomes; nothing runs
    Replay,
}

impl Args {
    /// The mode in the protocol's spelling.
    fn mode(&self) -> &'static str {
        match self.mode {
            Mode::Branch => "branch",
            Mode::Replay => "replay",
        }
    }
}

/// Forks a run.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    if let Some(remote) = target::server(session, "runs fork").await? {
        return run_on_server(args, session, remote).await;
    }
    let door = session.write()?;
    // A replay is complete at once.
    let is_left = args.detach || matches!(args.mode, Mode::Replay);
    Driver::for_detach(is_left).check(session, &door).await?;
    let engine = compose::engine(session, &door, &args.drive.ports)?;
    let source = lookup::find(engine.door(), &args.run).await?;
    let mode = match args.mode {
        Mode::Branch => ForkMode::Branch,
        Mode::Replay => ForkMode::Replay,
    };
    let overlay = Overlay {
        tags: (!args.tags.is_empty()).then(|| args.tags.clone()),
        ..Overlay::default()
    };
    let order = ForkSpec {
        overlay,
        ..ForkSpec::new(mode, args.at)
    };
    let forked = engine
        .fork(&source, order)
        .await
        .map_err(|failed| refused(failed, short(&source)))?;
    if mode == ForkMode::Replay {
        return tell_replay(session, &forked.run, forked.divergence.as_ref());
    }
    let run = forked.run.header.stream.clone();
    if args.detach {
        print(session, &forked.run)?;
        say_next(session, engine.door(), &run).await?;
        return Ok(Exit::Done);
    }
    if !args.drive.is_quiet() && session.form == Form::Text {
        let from = forked.run.header.origin.as_ref().map_or(0, |o| o.seq);
        let source = short(&source);
        let id = style::dim(run.as_str());
        talk::say(format!("{id} branches off {source} at event {from}"));
    }
    talk::listen_to_engine();
    let mut live = args.drive.live(session);
    let mut follower = Follower::new(engine.door().clone());
    follower.read_from_here(&run).await?;
    engine.start();
    let ended = driving::drive(
        &engine,
        &mut follower,
        &mut live,
        Until::Settled,
        &mut Prompt::never(),
    )
    .await?;
    drop(live);
    super::super::run::finish(&follower, session, ended)
}

fn tell_replay(
    session: &Session,
    run: &Run,
    divergence: Option<&Divergence>,
) -> Result<Exit, Failure> {
    print(session, run)?;
    if let Some(divergence) = divergence {
        replay::say(divergence);
        return Ok(Exit::Found);
    }
    let status = style::status(run.status().as_str());
    let events = run.head.next_seq;
    talk::say(format!(
        "repeated without a difference: {events} events, {status}"
    ));
    Ok(Exit::Done)
}

fn print(session: &Session, run: &Run) -> Result<(), Failure> {
    let mut data = Data::new();
    match session.form {
        Form::Json => data.json_line(&faces_json::snapshot(run))?,
        Form::Text => data.line(run.header.stream.as_str())?,
    }
    data.done()
}

/// Forks a run of a server, and follows a branch to its end.
async fn run_on_server(args: Args, session: &Session, remote: &Remote) -> Result<Exit, Failure> {
    PortArgs::refuse_typed()?;
    let target = Server(remote);
    let source = target.find(&args.run, Purpose::Use).await?;
    let mut order = json!({ "mode": args.mode() });
    match (args.at, args.mode) {
        (Some(at), _) => order["fromSeq"] = json!(at),
        (None, Mode::Branch) => order["fromSeq"] = json!(end(&target, &source).await?),
        (None, Mode::Replay) => {}
    }
    if !args.tags.is_empty() {
        order["runOptionsOverlay"] = json!({ "tags": args.tags });
    }
    let forked = remote
        .post(&format!("/v1/runs/{source}:fork"), &order)
        .await?;
    let run = StreamId::new(forked["runId"].as_str().unwrap_or_default());
    let mut data = Data::for_verdict();
    if args.detach || matches!(args.mode, Mode::Replay) {
        match session.form {
            Form::Json => data.json_line(&target.snapshot(&run).await?)?,
            Form::Text => data.line(run.as_str())?,
        }
        data.done()?;
        return Ok(match forked["divergedAtSeq"].as_u64() {
            None => Exit::Done,
            Some(seq) => {
                talk::say(format!("decided differently at event {seq}"));
                Exit::Found
            }
        });
    }
    let from = forked["fromSeq"].as_u64().unwrap_or_default();
    let mut cursor = Cursor::new(run, from.checked_sub(1));
    while !cursor.is_complete {
        for event in target.new_events(&mut cursor, session.form).await? {
            match session.form {
                Form::Json => data.line(&event.text)?,
                Form::Text => talk::say(event.text),
            }
        }
        data.flush()?;
    }
    let snapshot = target.snapshot(&cursor.run).await?;
    match session.form {
        Form::Json => data.json_line(&snapshot)?,
        Form::Text => {
            let name = format!("{}{}", short(&cursor.run), remote.place());
            target::say_end(&mut data, &snapshot, &name, (0, None), None)?;
        }
    }
    data.done()?;
    Ok(target::exit(&snapshot))
}

/// The length of the log of an unfinished run of a server.
async fn end(target: &Server<'_>, run: &StreamId) -> Result<Seq, Failure> {
    let page = target.end(run).await?;
    let last = page["lastEventSeq"].as_u64().unwrap_or_default();
    if page["isTerminal"] == true {
        Err(ended(run.as_str(), last))
    } else {
        Ok(last + 1)
    }
}

fn refused(failed: ForkFailed, source: &str) -> Failure {
    let refused = match failed {
        ForkFailed::Door(error) => return error.into(),
        ForkFailed::Refused(refused) => refused,
    };
    let failure = Failure::new(format!("run {source} cannot be forked there: {refused}"));
    match refused {
        ForkError::Ended { seq } => ended(source, seq),
        ForkError::BeyondLog { .. } => failure.hint(format!(
            "`runwright events {source}` shows the sequences; --at SEQ copies the events below it"
        )),
        ForkError::Source(_) => failure.hint("`runwright verify` lists every fault"),
        ForkError::OverlayOnReplay => failure.hint("remove --tag, or make a branch"),
        ForkError::Rejected(_)
        | ForkError::OtherWorkflow { .. }
        | ForkError::NodeMissing { .. }
        | ForkError::Unfit(_) => failure,
    }
}

/// A branch cannot begin after the end of its source.
fn ended(source: &str, seq: Seq) -> Failure {
    Failure::new(format!(
        "run {source} ended with event {seq}, so a branch must start before it"
    ))
    .hint(format!(
        "--at SEQ copies the events below SEQ, --at 0 starts again; `runwright events {source}` \
         shows the sequences"
    ))
}
