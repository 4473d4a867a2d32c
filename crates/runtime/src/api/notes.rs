//! Annotations of runs.

use kernel::ids::{Seq, StreamId};
use kernel::notes::{Annotate, Event, Rejection, Signal, Target};
use kernel::problem::{ProblemCode, Problems};

use store::StoreError;

use super::{Api, ApiError, Effect};
use crate::access::{Action, Principal};
use crate::door::NotesError;
use crate::redact::Redactor;

/// An annotation to make.
#[derive(Clone, Debug)]
pub struct NewAnnotation {
    /// The part of the run it is about.
    pub target: Target,
    /// Its content.
    pub signal: Signal,
    /// The reason, in words.
    pub note: Option<String>,
}

impl Api {
    /// Checks that the caller may annotate a run that exists.
    ///
    /// # Errors
    /// As [`Api::annotate`].
    pub async fn may_annotate(&self, who: &Principal, run: &StreamId) -> Result<(), ApiError> {
        self.head(who, Action::AnnotateRun, run).await.map(drop)
    }

    /// Annotates a run, ended or not. The run's log is unchanged; credentials are redacted from the
    /// note. A repeated request returns its earlier annotation.
    ///
    /// # Errors
    /// `NotFound` and `Erased` for the run, `Invalid` if the annotation does not fit it, `Full`.
    pub async fn annotate(
        &self,
        who: &Principal,
        run: &StreamId,
        said: NewAnnotation,
        request_id: Option<&str>,
        effect: Option<&Effect>,
    ) -> Result<Event, ApiError> {
        let header = self.head(who, Action::AnnotateRun, run).await?;
        if let Some(noted) = self.noted_before(who, run, effect).await? {
            return Ok(noted);
        }
        let state = self.door().load(run).await?;
        let mut problems = Problems::new();
        if said
            .target
            .event_seq
            .is_some_and(|seq| seq >= header.next_seq)
        {
            let what = "is not an event of this run";
            problems.add("/target/eventId", ProblemCode::InvalidValue, what);
        }
        let node = said.target.node_id.as_ref();
        if node.is_some_and(|node| state.plan.node_ix(node.as_str()).is_none()) {
            let what = "is not a node of this run";
            problems.add("/target/nodeId", ProblemCode::InvalidValue, what);
        }
        problems.or(()).map_err(invalid)?;
        let redactor = Redactor::masking();
        let clean = |text: String| redactor.text(&text).into_owned();
        let said = Annotate {
            target: said.target,
            signal: match said.signal {
                Signal::Correction { correction } => Signal::Correction {
                    correction: clean(correction),
                },
                Signal::Label { label } => Signal::Label {
                    label: clean(label),
                },
                signal @ (Signal::Rating { .. } | Signal::Flag) => signal,
            },
            note: said.note.map(clean),
            by: who.actor(request_id),
        };
        let now = self.door().store().now();
        let key = |seq: Seq| effect.map(|effect| effect.claim(&seq.to_string(), now));
        let owner = &header.header.owner;
        let noted = self.door().annotate(run, owner, said, key).await;
        noted.map_err(|error| match error {
            NotesError::Store(error) => error.into(),
            NotesError::Rejected(Rejection::Full) => ApiError::Full {
                what: "annotations of this run",
            },
            NotesError::Rejected(rejection) => {
                let mut problems = Problems::new();
                let what = rejection.to_string();
                problems.add("/signal", ProblemCode::InvalidValue, what);
                invalid(problems)
            }
        })
    }

    /// The annotation of an earlier request whose response was lost.
    async fn noted_before(
        &self,
        who: &Principal,
        run: &StreamId,
        effect: Option<&Effect>,
    ) -> Result<Option<Event>, ApiError> {
        let Some(place) = self.found(who, effect).await? else {
            return Ok(None);
        };
        let damaged = || StoreError::Corrupt("the target of an annotation cannot be read".into());
        let seq: Seq = place.parse().map_err(|_| damaged())?;
        let noted = self.door().notes_from(run, seq, 1).await?.pop();
        Ok(Some(noted.ok_or_else(damaged)?))
    }

    /// The annotations of a run, oldest first.
    ///
    /// # Errors
    /// As [`Api::version`].
    pub async fn annotations(
        &self,
        who: &Principal,
        run: &StreamId,
    ) -> Result<Vec<Event>, ApiError> {
        self.head(who, Action::ReadRun, run).await?;
        Ok(self.door().notes(run).await?)
    }
}

fn invalid(problems: Problems) -> ApiError {
    ApiError::Invalid {
        what: "request",
        problems,
    }
}
