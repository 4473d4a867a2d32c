//! A new session that begins with the state of an old one at a checkpoint, or before a node. The
//! old one stays unchanged.

use faces::player::names;
use faces::player::projection::METADATA;
use kernel::ids::{Seq, StreamId};
use kernel::problem::{instead, quoted};
use kernel::run::{Event, Overlay, Rejection, Run, RunEvent};
use kernel::stream::{ForkMode, Policy};
use runtime::engine::{Engine, new_nonce};
use runtime::{DoorError, ForkFailed, ForkSpec};

use super::sessions::{self, Kind, Known};
use super::{Args, changed, checks, decide, files, resume, start};
use crate::exit::{Exit, Failure};
use crate::follow::{Follower, Look};
use crate::session::Session;
use crate::talk;

/// Begins a session from another.
pub(super) async fn run(
    name: Option<&str>,
    from: &str,
    args: &Args,
    session: &Session,
) -> Result<Exit, Failure> {
    let may = |known: &Known| !matches!(known.kind, Kind::Foreign(_));
    let known = sessions::find_own(session, name, may, ("begin from", "--from")).await?;
    let executors = checks::executors(session)?;
    let engine = start::engine(args, &executors, session)?;
    let source = StreamId::new(&known.id);
    let mut follower = Follower::new(engine.door().clone());
    follower.read_from_start(&source).await?;
    let news = follower.catch_up(Look::Everywhere).await?;
    let events: Vec<&Event> = news.iter().map(|item| &item.event).collect();
    let source_run = &follower.runs()[0].run;
    let is_checkpoint = match source_run.plan.node_ix(from) {
        Some(ix) => source_run.plan.node(ix).config.get("checkpoint").is_some(),
        None => {
            let ids = source_run.plan.nodes.iter().map(|node| node.id.as_str());
            let failure = Failure::new(format!("session {source} has no node {}", quoted(from)));
            return Err(match instead(from, ids) {
                Some(hint) => failure.hint(hint),
                None => failure,
            });
        }
    };
    let at = cut(&events, from, is_checkpoint).ok_or_else(|| {
        Failure::new(format!(
            "session {source} has not reached {} yet",
            quoted(from)
        ))
        .hint(format!("`runwright play --resume {source}` continues it"))
    })?;
    changed::warn(args, session, source_run)?;
    let policy = raised(args, source_run)?;
    let run = fork(&engine, session, &source, Some(at), policy, &events).await?;
    let place = if is_checkpoint { "at" } else { "before" };
    talk::say(format!(
        "session {run} starts with the state of {source} {place} {from}"
    ));
    resume::go_on(args, session, engine, &run).await
}

/// A new session that begins at the state of another and has a larger budget. The other one ends.
pub(super) async fn with_budget(
    args: &Args,
    session: &Session,
    engine: &Engine,
    source: &StreamId,
) -> Result<StreamId, Failure> {
    let mut follower = Follower::new(engine.door().clone());
    follower.read_from_start(source).await?;
    let news = follower.catch_up(Look::Everywhere).await?;
    let events: Vec<&Event> = news.iter().map(|item| &item.event).collect();
    let policy = raised(args, &follower.runs()[0].run)?;
    let run = fork(engine, session, source, None, policy, &events).await?;
    decide::end(session, engine.door(), source).await?;
    files::bring_up_to_date(engine.door(), &session.place.project, source).await?;
    talk::say(format!(
        "session {run} continues {source} with the new budget; {source} has ended"
    ));
    Ok(run)
}

/// The policy of a session with a larger budget than its source; `None` when that was not
/// requested.
pub(super) fn raised(args: &Args, source: &Run) -> Result<Option<Policy>, Failure> {
    let wanted = start::budget(args.budget_usd, args.budget_tokens)?;
    if wanted.is_empty() {
        return Ok(None);
    }
    let spent = source.facts().map(|facts| &facts.budget.spent);
    for (dimension, limit) in &wanted {
        let used = spent.and_then(|spent| spent.get(dimension)).copied();
        if let Some(used) = used.filter(|used| used >= limit) {
            let what = match dimension.as_str() {
                "tokens" => format!("{used} tokens are used already; --budget-tokens {limit}"),
                _ => format!(
                    "{:.4} USD are used already; --budget-usd {}",
                    used as f64 / 1e6,
                    *limit as f64 / 1e6
                ),
            };
            let hint = "give a larger amount: it is for the whole session";
            return Err(Failure::new(format!("{what} is not enough")).hint(hint));
        }
    }
    let mut policy = source.header.policy.clone();
    policy.budget.extend(wanted);
    Ok(Some(policy))
}

/// The length of the log that a session takes over: up to the end of a passed checkpoint, up to the
/// question of an open one, or up to before the start of a node.
fn cut(events: &[&Event], from: &str, is_checkpoint: bool) -> Option<Seq> {
    let is_passed = |event: &&&Event| match &event.body {
        RunEvent::NodeCompleted { node_id, .. } => node_id.as_str() == from,
        _ => false,
    };
    let asks = |event: &&&Event| match &event.body {
        RunEvent::NodeSuspended { node_id, .. } => node_id.as_str() == from,
        _ => false,
    };
    let is_begun = |event: &&&Event| match &event.body {
        RunEvent::NodeStarted { node_id, .. } => node_id.as_str() == from,
        _ => false,
    };
    let mut all = events.iter();
    if is_checkpoint {
        let at = all.clone().find(is_passed).or_else(|| all.find(asks));
        at.map(|event| event.seq + 1)
    } else {
        all.find(is_begun).map(|event| event.seq)
    }
}

async fn fork(
    engine: &Engine,
    session: &Session,
    source: &StreamId,
    at: Option<Seq>,
    policy: Option<Policy>,
    events: &[&Event],
) -> Result<StreamId, Failure> {
    let metadata = events.iter().find_map(|event| match &event.body {
        RunEvent::RunStarted { metadata, .. } => Some(metadata.clone()),
        _ => None,
    });
    let slug = slug_of(source.as_str());
    let now = engine.door().store().now();
    for attempt in 0..1_000 {
        let id = names::session_id(&slug, now, attempt);
        if sessions::folder(session, &id).exists() {
            continue;
        }
        let mut metadata = metadata.clone().unwrap_or_default();
        if let Some(play) = metadata.get_mut(METADATA) {
            play["forkedFrom"] = serde_json::json!(source);
            if let Some(play) = play.as_object_mut() {
                play.remove("createdAt");
            }
        }
        let order = ForkSpec {
            id: Some(StreamId::new(&id)),
            nonce: Some(new_nonce()),
            overlay: Overlay {
                metadata: Some(metadata),
                ..Overlay::default()
            },
            policy: policy.clone(),
            ..ForkSpec::new(ForkMode::Branch, at)
        };
        match engine.fork(source, order).await {
            Ok(_) => return Ok(StreamId::new(&id)),
            Err(ForkFailed::Door(DoorError::Rejected(Rejection::Existing))) => {}
            Err(ForkFailed::Door(error)) => return Err(error.into()),
            Err(ForkFailed::Refused(refused)) => {
                return Err(Failure::new(format!(
                    "session {source} cannot start there: {refused}"
                )));
            }
        }
    }
    Err(Failure::new("too many sessions start at the same time").hint("try again"))
}

/// The slug in a session id.
pub(super) fn slug_of(id: &str) -> String {
    let parts: Vec<&str> = id.trim_start_matches("WFR-").split('-').collect();
    let is_number = |part: &&&str| part.chars().all(|c| c.is_ascii_digit());
    let numbers = parts.iter().rev().take_while(is_number).count();
    names::slug(&parts[..parts.len() - numbers].join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_slug_is_the_part_before_its_numbers() {
        assert_eq!(slug_of("WFR-a-b-20260317-143022"), "a-b");
        assert_eq!(slug_of("WFR-a-b-20260317-143022-2"), "a-b");
        assert_eq!(slug_of("WFR-20260317-143022"), "workflow");
    }
}
