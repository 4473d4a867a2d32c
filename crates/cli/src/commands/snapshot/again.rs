//! One replay of a snapshot.

mod prepare;
mod replayed;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use capture::call::Keep;
use capture::document::draft;
use capture::folder_keep::Contents;
use capture::judge::first_divergence;
use capture::replayer::{Divergence, Reason};
use capture::run::{Outcome, RunError, Status};
use faces::provenance::document::MatchStatus;
use faces::provenance::document::Snapshot;
use faces::provenance::ladder::Strategy;
use faces::provenance::seal::seal;
use provenance::{Folder, Kept, Redaction};
use serde_json::{Value, json};

use super::command::{echo, not_run, said, surroundings};
use super::how::{Held, Judge};
use super::kind::{Kind, NotReplayed, ReplayError, Typed};
use crate::args::PortArgs;
use crate::exit::Failure;
use crate::session::{Form, Session};

pub(super) use prepare::Prepared;
pub(super) use replayed::{Facts, Replayed, at_most};

/// A snapshot that is replayed.
pub(super) struct Again {
    typed: Typed,
    kind: Kind,
    kept: Kept,
    folder: Folder,
    root: PathBuf,
    /// The addresses and credentials that nodes of a run may use.
    ports: PortArgs,
}

impl Again {
    /// A replay, as typed.
    pub(super) fn new(
        typed: Typed,
        kept: Kept,
        folder: Folder,
        root: &Path,
    ) -> Result<Self, Failure> {
        let root = root
            .canonicalize()
            .map_err(|error| Failure::file(root, &error))?;
        Ok(Self {
            kind: typed.kind(kept.document.snapshot.config.execution_mode),
            typed,
            kept,
            folder,
            root,
            ports: PortArgs::default(),
        })
    }

    /// The kind of the replay.
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// The same, with access options for nodes of a run.
    pub(super) fn with_ports(self, ports: PortArgs) -> Self {
        Self { ports, ..self }
    }

    /// Replays once. The result contains none of the secrets known here.
    ///
    /// # Errors
    /// When nothing could be executed, or there is nothing to compare.
    pub(super) async fn once(
        &self,
        judge: &Judge,
        session: &Session,
    ) -> Result<Replayed, ReplayError> {
        let replayed = self.attempt(judge, session).await;
        let redaction = Redaction::of_environment(surroundings());
        match replayed {
            Ok(replayed) => Ok(replayed.cleaned(&redaction)),
            Err(ReplayError::NotReplayed(NotReplayed::NotServed(left))) => {
                Err(NotReplayed::NotServed(Box::new(left.cleaned(&redaction))).into())
            }
            Err(error) => Err(error),
        }
    }

    async fn attempt(&self, judge: &Judge, session: &Session) -> Result<Replayed, ReplayError> {
        // A signal between two replays ends the next.
        if judge.stop().is_cancelled() {
            return Err(NotReplayed::Cancelled.into());
        }
        let recorded = &self.kept.document.snapshot;
        let kind = self.kind;
        let more = recorded.extensions.as_ref();
        if let Some(run) = more.and_then(|more| more.run_id.as_deref()) {
            if self.typed.is_of_commands() {
                return Err(Failure::new(
                    "--in-place, --on-miss and a command are only for snapshots of commands, not \
                     of runs",
                )
                .hint("remove these options; `--kind` selects what runs live")
                .into());
            }
            let of_run = super::of_run::OfRun {
                recorded,
                run,
                kind,
                judge,
                ports: &self.ports,
            };
            return of_run.once(session).await;
        }
        let Prepared {
            about,
            plan,
            cleaner,
            process,
            calls,
            source,
            copied: _copied,
        } = self.prepare().await?;
        if judge.stop().is_cancelled() {
            return Err(NotReplayed::Cancelled.into());
        }
        let kept = plan.keep.clone();
        let quiet = match session.form {
            Form::Text => echo(Form::Json),
            Form::Json => Arc::new(|_, _: &[u8]| {}),
        };
        let ignored = plan.ignored.clone();
        let outcome = match capture::run::run(plan, judge.stop().clone(), quiet).await {
            Ok(outcome) => outcome,
            Err(error @ RunError::NotStarted { .. }) => {
                return Err(NotReplayed::NotStarted(error.to_string()).into());
            }
            Err(error) => return Err(not_run(error).into()),
        };
        if outcome.status == Status::Cancelled {
            return Err(NotReplayed::Cancelled.into());
        }
        // A missing content says nothing about the command.
        let left = outcome.recorded.divergence.as_ref();
        if let Some(left) = left.filter(|left| left.reason == Reason::ContentUnavailable) {
            return Err(NotReplayed::NotServed(Box::new(left.clone())).into());
        }
        let draft = draft(
            provenance::new_id(),
            &about,
            &outcome,
            &cleaner,
            Contents::Full,
        );
        let snapshot = seal(draft, &mut |value| cleaner.value(value)).map_err(said)?;

        // A served replay must be identical.
        let by_kind = (kind == Kind::Verify).then_some(Strategy::Exact);
        let held = |snapshot: &Snapshot, keep: &Arc<dyn Keep>| {
            let keep = keep.clone();
            Held {
                snapshot: snapshot.clone(),
                calls: Vec::new(),
                contents: Box::new(move |hash| {
                    let digest = faces::provenance::hash::digest(hash)?;
                    keep.get(digest).ok()?
                }),
            }
        };
        let (one, other) = (held(recorded, &source), held(&snapshot, &kept));
        let Some(judgement) = judge.compare(one, other, by_kind).await? else {
            return Err(NotReplayed::Cancelled.into());
        };
        let Some(status) = judgement.match_status else {
            return Err(NotReplayed::NotComparable.into());
        };
        let mut divergence = outcome.recorded.divergence.clone();
        if divergence.is_none() {
            let replayed = (&outcome.recorded.calls[..], &*kept);
            divergence = first_divergence((&calls, &*source), replayed, &ignored);
            divergence = divergence.filter(|found| is_worth_naming(found, kind, status));
        }
        if divergence.is_none() {
            divergence = other_end(&process, &outcome);
        }
        let refused = refused(recorded, &outcome);
        if divergence.is_none() && recorded.servers("refused").next().is_none() {
            divergence = other_connection(&refused, &outcome);
        }
        // Live calls may have other results; served ones may not.
        let has_left =
            outcome.recorded.divergence.is_some() || (kind == Kind::Verify && divergence.is_some());
        if kind == Kind::Verify {
            warn_of(&outcome, &refused);
        }
        Ok(Replayed {
            pass: judgement.pass && !has_left,
            status: Some(sure(at_most(status, has_left), kind, &outcome, &refused)),
            snapshot,
            strategy: judgement.strategy,
            divergence,
            judgement,
            facts: Facts {
                is_mixed: outcome.recorded.is_mixed,
                live_models: outcome.recorded.live_models,
                live_tools: outcome.recorded.live_tools,
                denied: outcome.recorded.denied,
                refused,
                run_status: outcome.status.as_str().to_owned(),
                exit_code: outcome.exit_code,
            },
            has_left,
        })
    }
}

/// The refused connections of a replay, without servers that the recorded command called.
fn refused(recorded: &Snapshot, outcome: &Outcome) -> Vec<String> {
    let called: Vec<&str> = recorded.servers("asked").collect();
    let refused = outcome.seen.refused.iter();
    let refused = refused.filter(|server| !called.contains(&server.as_str()));
    refused.cloned().collect()
}

/// A refused connection in a replay of a command that had none.
fn other_connection(refused: &[String], outcome: &Outcome) -> Option<Divergence> {
    let server = refused.first()?;
    let step = outcome.recorded.calls.len() as u64 + 1;
    Some(Divergence {
        step,
        reason: Reason::Added,
        at: None,
        recorded_step: None,
        expected: None,
        actual: None,
        message: format!(
            "step {step}: the command was refused a connection ({server}); the recorded command was \
             not"
        ),
    })
}

/// The certain status: a replay that should not call anything live, but did or may have, is not an
/// exact match.
fn sure(status: MatchStatus, kind: Kind, outcome: &Outcome, refused: &[String]) -> MatchStatus {
    let recorded = &outcome.recorded;
    let asked = recorded.live_models + recorded.live_tools > 0
        || outcome.wall.doubt().is_some()
        || !refused.is_empty();
    match status {
        MatchStatus::ExactMatch if kind == Kind::Verify && asked => MatchStatus::SemanticMatch,
        status => status,
    }
}

/// Warns about a replay whose network access was not restricted, with refused connections, or whose
/// processes outlived it.
fn warn_of(outcome: &Outcome, refused: &[String]) {
    if !refused.is_empty() {
        let servers = crate::text::one_line(&refused.join(", "), 400);
        crate::talk::say(format!(
            "{} refused: {servers}; a replay connects to no server, and an answer of it is not in \
             the recording",
            crate::style::warn("note:")
        ));
    }
    if let Some(line) = super::command::outlived(outcome) {
        crate::talk::say(format!("{} {line}", crate::style::warn("note:")));
    }
    if let Some(why) = outcome.wall.doubt() {
        crate::talk::say(format!(
            "{} UNVERIFIED: the replay is not an exact match: {why}",
            crate::style::warn("warning:")
        ));
    }
}

/// Whether a different result is worth reporting: a live model answers with another id and at
/// another time, and with an exact match of the rest, that is the only difference.
fn is_worth_naming(found: &Divergence, kind: Kind, status: MatchStatus) -> bool {
    kind == Kind::Verify || status != MatchStatus::ExactMatch || found.reason != Reason::OtherResult
}

/// A command with the same calls and another exit code.
fn other_end(process: &Value, outcome: &Outcome) -> Option<Divergence> {
    let recorded = process.get("exit_code")?;
    if *recorded == json!(outcome.exit_code) {
        return None;
    }
    let step = outcome.recorded.calls.len() as u64 + 1;
    let code = |code: &Value| match code.as_i64() {
        Some(code) => format!("exit code {code}"),
        None => "a signal".to_owned(),
    };
    let message = format!(
        "step {step}: the command ended with {}, not with {}",
        code(&json!(outcome.exit_code)),
        code(recorded)
    );
    Some(Divergence {
        step,
        reason: Reason::OtherEnd,
        at: None,
        recorded_step: None,
        expected: None,
        actual: None,
        message,
    })
}
