//! Plays a session: drives its run, writes its files, shows its progress and answers its questions,
//! until it ends, pauses or is interrupted.

use std::time::Duration;

use faces::player::state::Status;
use kernel::ids::{InterruptId, StreamId};
use kernel::run::{Capacity, Command, Envelope, InterruptKind, Rejection, Run};
use runtime::DoorError;
use runtime::engine::Engine;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::files::Files;
use super::presence::Presence;
use super::view::View;
use super::{Args, ask, sessions, so_far, words};
use crate::driving::{Interrupts, TERM_PATIENCE, waits_for_somebody};
use crate::exit::{Exit, Failure};
use crate::follow::{Follower, Look};
use crate::session::Session;
use crate::trouble::Trouble;
use crate::{style, talk, text};

/// The interval of redraws.
const FRAME: Duration = Duration::from_millis(100);
/// After this many frames the log is read even without a hint.
const FRAMES_PER_SWEEP: usize = 5;

/// Whether a session is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    /// It was.
    Now,
    /// It had been left.
    Before,
}

/// A session that is played.
pub(super) struct Playing<'a> {
    session: &'a Session,
    engine: Engine,
    follower: Follower,
    files: Files,
    view: View,
    args: &'a Args,
    run: StreamId,
    asking: Option<Asking>,
    trouble: Trouble,
}

/// A displayed question.
struct Asking {
    question: Question,
    answer: oneshot::Receiver<Option<String>>,
}

/// A question of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Question {
    interrupt: InterruptId,
    node: String,
    about: About,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// Whether to continue after a checkpoint.
    Checkpoint,
    /// The decision about a failure.
    Failure,
}

impl About {
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::Checkpoint => &["Continue", "Pause", "Abort"],
            Self::Failure => &["Retry", "Skip", "Abort"],
        }
    }
}

/// The reason for the end of playing.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// The session does not progress by itself.
    Done,
    /// A signal came.
    Interrupted,
    /// Another process drives the session.
    Held(String),
}

impl<'a> Playing<'a> {
    /// A session that this process will drive.
    pub(super) async fn new(
        args: &'a Args,
        session: &'a Session,
        engine: Engine,
        run: &StreamId,
    ) -> Result<Self, Failure> {
        let mut follower = Follower::new(engine.door().clone());
        follower.read_from_start(run).await?;
        let files = Files::for_follower(&session.place.project, &follower).ok_or_else(|| {
            Failure::new(format!("run {run} is not a session of a template"))
                .hint("`runwright resume` continues it")
        })?;
        Ok(Self {
            session,
            engine,
            follower,
            files,
            view: View::new(args, session),
            args,
            run: run.clone(),
            asking: None,
            trouble: Trouble::new("session"),
        })
    }

    /// Plays it to its end.
    pub(super) async fn go(&mut self, since: Since) -> Result<Exit, Failure> {
        talk::listen_to_engine();
        // Earlier events are not shown again, but their files are written at once.
        self.catch_up(Look::Everywhere, since == Since::Now).await?;
        let _presence = Presence::at(&self.files.folder());
        self.engine.adopt_family(&self.run).await?;
        self.engine.start();
        let ended = self.play().await;
        if !matches!(ended, Ok(Ended::Interrupted)) {
            self.engine.drain(TERM_PATIENCE).await;
        }
        self.catch_up(Look::Everywhere, true).await?;
        self.view.end();
        let (ended, written) = (ended?, self.files.write());
        match ended {
            Ended::Held(who) if !self.root().is_settled() => {
                Err(sessions::held(self.run.as_str(), &who))
            }
            Ended::Interrupted if !self.root().is_settled() => {
                if let Err(failure) = written {
                    talk::say_failure(&failure);
                }
                words::left(&self.files);
                words::last(self.session, &self.files)?;
                Ok(Exit::Interrupted)
            }
            _ => {
                written?;
                words::summary(self.args, &self.files);
                words::last(self.session, &self.files)?;
                Ok(exit(self.files.state().status))
            }
        }
    }

    async fn play(&mut self) -> Result<Ended, Failure> {
        let mut interrupts = Interrupts::new()?;
        let mut frames = tokio::time::interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut hint = self.engine.door().hints().watch(&self.run);
        let mut drains = JoinSet::new();
        let mut frame = 0;
        loop {
            tokio::select! {
                biased;
                interrupt = interrupts.next() => {
                    let is_asked = self.asking.take().is_some();
                    let patience = if is_asked {
                        Duration::ZERO
                    } else {
                        interrupts.patience(interrupt, &words::running(&self.files))
                    };
                    let engine = self.engine.clone();
                    drains.spawn(async move { engine.drain(patience).await });
                    continue;
                }
                Some(_) = drains.join_next() => return Ok(Ended::Interrupted),
                answer = answered(&mut self.asking) => {
                    if let Some(ended) = self.take_answer(answer).await? {
                        return Ok(ended);
                    }
                }
                true = hint.changed() => {}
                _ = frames.tick() => frame += 1,
            }
            hint.look();
            let look = match frame % FRAMES_PER_SWEEP {
                0 => Look::Everywhere,
                _ => Look::Hinted,
            };
            self.catch_up(look, true).await?;
            if self.root().is_settled() {
                return Ok(Ended::Done);
            }
            if look == Look::Everywhere
                && self.engine.driving() == 0
                && let Some(who) = sessions::driven_by(self.engine.door(), &self.run).await?
            {
                return Ok(Ended::Held(who));
            }
            if drains.is_empty()
                && let Some(ended) = self.answer().await?
            {
                return Ok(ended);
            }
        }
    }

    fn root(&self) -> &Run {
        &self.follower.runs()[0].run
    }

    async fn catch_up(&mut self, look: Look, is_shown: bool) -> Result<(), Failure> {
        let news = self.follower.catch_up(look).await?;
        for item in news.iter().filter(|item| item.of == 0) {
            self.files.take(&item.event);
            if is_shown {
                self.view.note(&item.event, &self.files)?;
            }
        }
        let written = self.files.write().err().map(|failure| failure.to_string());
        self.trouble.look(self.engine.trouble().or(written));
        if is_shown && self.asking.is_none() {
            let now = self.engine.door().store().now();
            self.view.show(&self.follower, &news, now)?;
        }
        Ok(())
    }

    /// Answers the session's questions, or puts them to a person, once nothing else is in progress.
    async fn answer(&mut self) -> Result<Option<Ended>, Failure> {
        if let Some(asking) = &self.asking {
            if !self.questions().contains(&asking.question) {
                self.asking = None;
                talk::say("answered elsewhere");
                self.view.again(self.args, self.session);
            }
            return Ok(None);
        }
        if !waits_for_somebody(self.root()) {
            return Ok(None);
        }
        let questions = self.questions();
        let Some(question) = questions.first() else {
            // A pause from outside, or a node that waits for a callback.
            let is_paused = self.files.state().status == Status::Paused;
            return Ok(is_paused.then_some(Ended::Done));
        };
        if question.about == About::Checkpoint && self.args.yes {
            self.resolve(question, "accept").await?;
            return Ok(None);
        }
        if !ask::somebody() || self.session.form == crate::session::Form::Json {
            return Ok(Some(Ended::Done));
        }
        self.view.end();
        let prompt = self.prompt(question);
        self.asking = Some(Asking {
            question: question.clone(),
            answer: ask::line(&prompt),
        });
        Ok(None)
    }

    /// The open questions, the oldest first.
    fn questions(&self) -> Vec<Question> {
        let run = self.root();
        let open = run.facts().into_iter().flat_map(|facts| &facts.interrupts);
        open.filter_map(|open| {
            let about = match open.kind {
                InterruptKind::Approval => About::Checkpoint,
                InterruptKind::Custom => About::Failure,
                _ => return None,
            };
            Some(Question {
                interrupt: open.id.clone(),
                node: run.plan.nodes[open.node as usize].id.to_string(),
                about,
            })
        })
        .collect()
    }

    fn prompt(&self, question: &Question) -> String {
        let run = self.root();
        let node = run.plan.node_ix(&question.node).map(|ix| run.plan.node(ix));
        let name = node.map_or(question.node.as_str(), |node| node.name.as_str());
        let head = match question.about {
            About::Checkpoint => {
                let asked = node.and_then(|node| node.config.get("description")?.as_str());
                let asked = asked.filter(|text| !text.is_empty()).unwrap_or("Continue?");
                let now = self.engine.door().store().now();
                let begun = run.facts().map(|facts| facts.started_at);
                let ran = |node: &str| {
                    let of = &run.facts()?.nodes[run.plan.node_ix(node)?.0 as usize];
                    Some((of.started_at?, of.settled_at?))
                };
                let state = self.files.state();
                let so_far = so_far::lines(&state, &question.node, begun, now, ran);
                format!(
                    "{} {}\n{so_far}{}",
                    style::warn("Checkpoint:"),
                    text::one_line(name, 80),
                    text::plain(asked)
                )
            }
            About::Failure => {
                let state = self.files.projection().node(&question.node);
                let error = state.and_then(|state| state.error()).unwrap_or_default();
                format!(
                    "{} {} ({})\n{}",
                    style::bad("Failed:"),
                    text::one_line(&question.node, 60),
                    text::one_line(name, 80),
                    text::plain(error)
                )
            }
        };
        format!("{head}\n{} ", ask::choices(question.about.words()))
    }

    async fn take_answer(&mut self, answer: Option<String>) -> Result<Option<Ended>, Failure> {
        let Some(Asking { question, .. }) = self.asking.take() else {
            return Ok(None);
        };
        let Some(answer) = answer else {
            // The input has ended: as without a terminal.
            return Ok(Some(Ended::Done));
        };
        let action = match (question.about, ask::meant(&answer, question.about.words())) {
            (About::Checkpoint, Some("Continue")) => "accept",
            (About::Checkpoint, Some("Abort")) => "reject",
            (About::Checkpoint, Some(_)) => return Ok(Some(Ended::Done)),
            (About::Failure, Some("Retry")) => "retry",
            (About::Failure, Some("Skip")) => "skip",
            (About::Failure, Some(_)) => "abort",
            (about, None) => {
                if !answer.is_empty() {
                    talk::say(format!(
                        "{} is not an answer; type one of {}",
                        kernel::problem::quoted(&answer),
                        about.words().join(", ")
                    ));
                }
                // Ask again, since nothing else is in progress.
                return Ok(None);
            }
        };
        self.resolve(&question, action).await?;
        self.view.again(self.args, self.session);
        Ok(None)
    }

    async fn resolve(&self, question: &Question, action: &str) -> Result<(), Failure> {
        resolve(&self.engine, &self.run, &question.interrupt, action).await
    }
}

/// Answers a question of a session. If it was answered meanwhile, that is not a failure.
pub(super) async fn resolve(
    engine: &Engine,
    run: &StreamId,
    interrupt: &InterruptId,
    action: &str,
) -> Result<(), Failure> {
    let command = Command::Resolve {
        interrupt: interrupt.clone(),
        value: json!({ "action": action }),
        by: Some("player".into()),
        capacity: Capacity::default(),
    };
    match engine.command(run, Envelope::from(command)).await {
        Ok(())
        | Err(DoorError::Rejected(
            Rejection::InterruptAnswered
            | Rejection::InterruptGone
            | Rejection::NoInterrupt
            | Rejection::Settled { .. },
        )) => {
            engine.door().hints().queue();
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Waits for the answer to a question; forever without one.
async fn answered(asking: &mut Option<Asking>) -> Option<String> {
    match asking {
        Some(asking) => (&mut asking.answer).await.ok().flatten(),
        None => std::future::pending().await,
    }
}

/// The exit code for a session.
pub(super) fn exit(status: Status) -> Exit {
    match status {
        Status::Completed | Status::Archived => Exit::Done,
        Status::Failed | Status::Aborted => Exit::Found,
        Status::Paused | Status::Running => Exit::Paused,
    }
}
