//! Continues a session.

use kernel::ids::StreamId;
use kernel::problem::{closest, quoted};
use kernel::run::state::Phase;
use kernel::run::{Command, Envelope, InterruptKind, Run};
use runtime::door::Door;
use runtime::engine::Engine;

use super::drive::{self, Playing, Since};
use super::files;
use super::sessions::{self, Kind, Known, Left};
use super::{Args, adopt, ask, changed, checks, fork, start, words};
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::talk;

/// Whether a session may continue by itself.
fn may_go_on(known: &Known) -> bool {
    matches!(known.kind, Kind::Open | Kind::Foreign(Left::Open))
}

/// Continues a session.
pub(super) async fn run(
    name: Option<&str>,
    args: &Args,
    session: &Session,
) -> Result<Exit, Failure> {
    let door = sessions::store(session)?;
    if name.is_none()
        && let Some(exit) = catch_up(args, session, door.as_ref()).await?
    {
        return Ok(exit);
    }
    let known = sessions::find(session, door.as_ref(), name, may_go_on, "resume").await?;
    drop(door);
    let executors = checks::executors(session)?;
    let engine = start::engine(args, &executors, session)?;
    if let Kind::Foreign(left) = known.kind {
        let adopted = adopt::Adopting {
            id: &known.id,
            left,
            args,
            session,
            executors: &executors,
        };
        let run = adopted.run(&engine).await?;
        return go_on(args, session, engine, &run).await;
    }
    let run = StreamId::new(&known.id);
    sessions::check_free(engine.door(), &run).await?;
    if known.kind == Kind::Settled {
        return ended(args, session, engine.door(), &run).await;
    }
    let mut state = engine.door().load(&run).await?;
    changed::warn(args, session, &state)?;
    let mut run = run;
    if args.budget_usd.is_some() || args.budget_tokens.is_some() {
        run = fork::with_budget(args, session, &engine, &run).await?;
        state = engine.door().load(&run).await?;
    }
    choose(args, &engine, &state).await?;
    answer(args, session, &engine, &state).await?;
    go_on(args, session, engine, &run).await
}

/// Updates the files of sessions that ended after their player was killed. If there is only this
/// one session and nothing to continue, it is the requested one; its exit is returned.
async fn catch_up(
    args: &Args,
    session: &Session,
    door: Option<&Door>,
) -> Result<Option<Exit>, Failure> {
    let Some(door) = door else {
        return Ok(None);
    };
    let project = &session.place.project;
    let known = sessions::all(session, Some(door)).await?;
    let is_behind =
        |known: &&Known| known.kind == Kind::Settled && files::are_behind(project, &known.id);
    let behind: Vec<&Known> = known.iter().filter(is_behind).collect();
    for known in &behind {
        files::bring_up_to_date(door, project, &StreamId::new(&known.id)).await?;
        talk::say(format!(
            "session {} had ended but its files did not show it; they are up to date now",
            known.id
        ));
    }
    match behind.as_slice() {
        [one] if !known.iter().any(may_go_on) => {
            let run = StreamId::new(&one.id);
            ended(args, session, door, &run).await.map(Some)
        }
        _ => Ok(None),
    }
}

/// Handles an ended session: only updates its files.
async fn ended(
    args: &Args,
    session: &Session,
    door: &Door,
    run: &StreamId,
) -> Result<Exit, Failure> {
    let project = &session.place.project;
    let files = files::bring_up_to_date(door, project, run).await?;
    let files = files.ok_or_else(|| Failure::new(format!("run {run} is not a session")))?;
    if let Some(node) = args.retry.first().or(args.skip.first()) {
        let what = format!(
            "session {run} has ended; {} can no longer be retried or skipped",
            quoted(node)
        );
        return Err(Failure::new(what).hint(format!(
            "`runwright play --resume {run} --from {node}` starts a new session from before it"
        )));
    }
    talk::say(format!("session {run} has ended"));
    words::summary(args, &files);
    words::last(session, &files)?;
    Ok(drive::exit(files.state().status))
}

/// Plays a paused session, or a fork of another.
pub(super) async fn go_on(
    args: &Args,
    session: &Session,
    engine: Engine,
    run: &StreamId,
) -> Result<Exit, Failure> {
    if !args.quiet && session.form == Form::Text {
        talk::say(format!("Resuming: {run}"));
    }
    Playing::new(args, session, engine, run)
        .await?
        .go(Since::Before)
        .await
}

/// Answers the questions that resuming implies: a checkpoint, a pause, and, without a terminal, the
/// decision about a failure.
async fn answer(
    args: &Args,
    session: &Session,
    engine: &Engine,
    state: &Run,
) -> Result<(), Failure> {
    let run = &state.header.stream;
    if matches!(state.phase(), Some(Phase::Paused { .. })) {
        let resume = Command::Resume { reason: None };
        engine.command(run, Envelope::from(resume)).await?;
    }
    let is_asked = ask::somebody() && session.form == Form::Text;
    let open = state.facts().into_iter();
    for open in open.flat_map(|facts| &facts.interrupts) {
        let node = state.plan.nodes[open.node as usize].id.as_str();
        let mut chosen = args.retry.iter().chain(&args.skip);
        let is_chosen = chosen.any(|chosen| chosen == node);
        let action = match open.kind {
            // Continuing is the answer to a checkpoint.
            InterruptKind::Approval => "accept",
            // Failed nodes are retried, unless a person can be asked.
            InterruptKind::Custom if !is_chosen && !is_asked => "retry",
            _ => continue,
        };
        drive::resolve(engine, run, &open.id, action).await?;
    }
    Ok(())
}

/// Carries out the typed decisions about failed nodes.
async fn choose(args: &Args, engine: &Engine, run: &Run) -> Result<(), Failure> {
    let retries = args.retry.iter().map(|node| (node, "retry"));
    let skips = args.skip.iter().map(|node| (node, "skip"));
    let failed: Vec<(&str, &kernel::ids::InterruptId)> = run
        .facts()
        .into_iter()
        .flat_map(|facts| &facts.interrupts)
        .filter(|open| open.kind == InterruptKind::Custom)
        .map(|open| (run.plan.nodes[open.node as usize].id.as_str(), &open.id))
        .collect();
    for (node, action) in retries.chain(skips) {
        let Some((_, interrupt)) = failed.iter().find(|(id, _)| id == node) else {
            let ids: Vec<&str> = failed.iter().map(|(id, _)| *id).collect();
            return Err(not_failed(node, run.header.stream.as_str(), &ids));
        };
        drive::resolve(engine, &run.header.stream, interrupt, action).await?;
    }
    Ok(())
}

/// The error for retrying or skipping a node that has not failed.
pub(super) fn not_failed(node: &str, session: &str, failed: &[&str]) -> Failure {
    let what = format!("{} is not a failed node of session {session}", quoted(node));
    Failure::new(what).hint(match (closest(node, failed.iter().copied()), failed) {
        (Some(meant), _) => format!("did you mean `{meant}`?"),
        (None, []) => "no node of the session waits for a decision".to_owned(),
        (None, failed) => format!("there are {}", failed.join(", ")),
    })
}
