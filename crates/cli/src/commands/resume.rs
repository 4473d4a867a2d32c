//! `runwright resume`: continues runs that an engine left unfinished.

use kernel::ids::StreamId;
use runtime::door::Door;
use runtime::holder;
use store::ListQuery;

use super::DriveArgs;
use super::snapshot::REPLAY_QUEUE;
use crate::driving::{self, Until};
use crate::exit::{Exit, Failure};
use crate::follow::Follower;
use crate::lookup::{self, RunName, short};
use crate::prompt::Prompt;
use crate::session::{Form, Session};
use crate::target::{holder_name, served_by};
use crate::{compose, style, talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright resume                  every unfinished run of the store
  runwright resume 1f0c9a2b         one run, by the end of its id
  runwright resume last --watch

Completed nodes do not run again. A node in flight when the engine ended starts again with the same
WF_ATTEMPT_KEY, once the processes of its first start are gone; if it had ended meanwhile, its
result is used. A step that lacked a provider or a secret is tried again. A run that another process
drives is left alone; while a server serves the store, the server drives every run.")]
pub(crate) struct Args {
    /// A run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    run: Option<RunName>,

    /// Every unfinished run; the same as naming none
    #[arg(long, conflicts_with = "run")]
    all: bool,

    #[command(flatten)]
    drive: DriveArgs,
}

/// Continues runs.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let door = session.write()?;
    if served_by(session, &door).await?.is_some() {
        return Err(served(&args));
    }
    let engine = compose::engine(session, &door, &args.drive.ports)?;
    let (runs, until) = match &args.run {
        Some(name) => {
            let run = lookup::find(engine.door(), name).await?;
            if let Some(who) = driven_by(&engine, &run).await? {
                let what = format!("run {} is driven by {who}", short(&run));
                return Err(Failure::new(what).hint(format!(
                    "`runwright runs tail {}` follows it; `runwright runs cancel` ends it",
                    short(&run)
                )));
            }
            if is_cut_off(engine.door(), &run).await? {
                let id = short(&run);
                let what = format!("run {id} is an incomplete copy and cannot be resumed");
                return Err(Failure::new(what).hint(format!(
                    "`runwright runs purge {id}` erases it; fork its source again"
                )));
            }
            (vec![run], Until::Settled)
        }
        None => (unfinished(&engine).await?, Until::NothingToDo),
    };
    let mut follower = Follower::new(engine.door().clone());
    for run in &runs {
        engine.adopt_family(run).await?;
        follower.read_from_here(run).await?;
    }
    if runs.is_empty() {
        talk::say("no run to resume");
        return Ok(Exit::Done);
    }
    for run in &runs {
        engine.retry_wants(run, "cli").await?;
    }
    if !args.drive.is_quiet() && session.form == Form::Text {
        announce(&follower);
    }
    talk::listen_to_engine();
    let mut live = args.drive.live(session);
    engine.start();
    let ended = driving::drive(
        &engine,
        &mut follower,
        &mut live,
        until,
        &mut Prompt::never(),
    )
    .await?;
    drop(live);
    super::run::finish(&follower, session, ended)
}

/// The server has its own providers, secrets and limits; a run that this process took from it would
/// continue without them.
fn served(args: &Args) -> Failure {
    let what = "a server drives the runs of this store";
    let hint = match &args.run {
        Some(name) => format!("`runwright runs tail {}` follows the run", name.as_str()),
        None => "`runwright runs list` shows them".to_owned(),
    };
    Failure::new(what).hint(format!("{hint}; stop the server to drive runs here"))
}

/// Every unsettled root run of any tenant without a driver.
async fn unfinished(engine: &runtime::engine::Engine) -> Result<Vec<StreamId>, Failure> {
    let rows = lookup::all(engine.door(), ListQuery::default()).await?;
    let mut runs = Vec::new();
    for row in rows
        .iter()
        .filter(|row| !row.index.settled && row.index.parent.is_none())
    {
        // A leftover replay of evidence is not continued: its recording is not attached here.
        if row.index.queue.starts_with(REPLAY_QUEUE) {
            continue;
        }
        if is_cut_off(engine.door(), &row.stream).await? {
            continue;
        }
        match driven_by(engine, &row.stream).await? {
            None => runs.push(row.stream.clone()),
            Some(who) => {
                talk::say(format!(
                    "run {} is driven by {who}; left alone",
                    short(&row.stream)
                ));
            }
        }
    }
    Ok(runs)
}

/// Whether a run is an incomplete fork, which cannot be driven.
async fn is_cut_off(door: &Door, run: &StreamId) -> Result<bool, Failure> {
    let loaded = door.store().load_head(run).await?;
    if loaded.header.origin.is_none() || loaded.index.settled {
        return Ok(false);
    }
    let run = door.load(run).await?;
    Ok(run.is_forking())
}

/// The driver of a run, if it can be determined: a lease of a dead process does not count.
async fn driven_by(
    engine: &runtime::engine::Engine,
    run: &StreamId,
) -> Result<Option<String>, Failure> {
    let store = engine.door().store();
    let loaded = store.load_head(run).await?;
    Ok(match loaded.lease {
        Some(lease) if lease.expires_at > store.now() && !holder::is_dead(&lease.holder) => {
            Some(holder_name(&lease.holder))
        }
        _ => None,
    })
}

fn announce(follower: &Follower) {
    for run in follower.roots() {
        let in_flight = run.live_attempts().count();
        let nodes = run.facts().map(crate::summary::counts).unwrap_or_default();
        let lost = match in_flight {
            0 => String::new(),
            n => format!(
                "; {} in flight when its engine ended",
                text::count(n, "node")
            ),
        };
        let workflow = text::one_line(run.plan.workflow.as_str(), 60);
        let id = style::dim(run.header.stream.as_str());
        talk::say(format!("{id} {workflow}: {nodes}{lost}"));
    }
}
