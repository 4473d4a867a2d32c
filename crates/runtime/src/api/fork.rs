//! Forking runs, and where runs come from.

use kernel::audit::AuditAction;
use kernel::fork::ForkError;
use kernel::ids::{MessageId, Seq, StreamId};
use kernel::problem::Problems;
use kernel::run::{Overlay, Run};
use kernel::stream::{ForkMode, Policy};
use kernel::trace::TraceContext;
use serde_json::{Map, Value};
use store::StoreError;

use super::error::Thing;
use super::{Api, ApiError, KeyedBy, Replayed, options};
use crate::access::{Action, Principal, Resource, What, authorise, trail};
use crate::door::{DoorError, ForkAnswer, ForkFailed, ForkOrder};

/// A fork somebody asks for.
#[derive(Clone, Debug)]
pub struct ForkRequest {
    /// Replay or branch.
    pub mode: ForkMode,
    /// Events of the source below this sequence are copied. A replay may leave it out.
    pub from: Option<Seq>,
    /// What a branch has other than its source. Settings and metadata are laid over the
    /// source's name by name; tags take the place of the source's.
    pub overlay: Overlay,
    /// The span that the request was made in.
    pub trace: Option<TraceContext>,
    /// What the request is recognised by when it comes again.
    pub keyed: Option<KeyedBy>,
    /// The request's own id, for the audit trail.
    pub request_id: Option<String>,
}

/// A fork that was made.
#[derive(Clone, Debug)]
pub struct ForkedRun {
    /// The fork.
    pub run: StreamId,
    /// The sequence from which on its log is its own. It lies below the one asked for where that
    /// cuts through the ending of a run.
    pub from: Seq,
    /// How it stood: a replay has ended, a branch waits in its queue.
    pub status: String,
    /// Where a replay left its source.
    pub diverged_at: Option<Seq>,
    /// Whether an equal request made it before.
    pub is_again: bool,
}

impl ForkedRun {
    fn of(run: StreamId, request: &ForkRequest, answer: ForkAnswer, is_again: bool) -> Self {
        Self {
            run,
            from: match (request.mode, request.from) {
                // What lies between was decided again to what it was, or `replay.diverged` says
                // where it was not.
                (ForkMode::Replay, Some(asked)) => asked,
                _ => answer.cut,
            },
            status: answer.status,
            diverged_at: answer.diverged_at,
            is_again,
        }
    }
}

/// Where a run comes from.
#[derive(Clone, Debug)]
pub struct Lineage {
    /// The run that started it, with the type of the node that did, where the parent is still
    /// there to say.
    pub parent: Option<(StreamId, Option<String>)>,
    /// The run it was forked from.
    pub source: Option<(StreamId, Seq, ForkMode)>,
}

impl Api {
    /// Whether the caller may fork a run that is there.
    ///
    /// # Errors
    /// As [`Api::fork_run`].
    pub async fn may_fork(&self, who: &Principal, source: &StreamId) -> Result<(), ApiError> {
        authorise(who, Action::CreateRun, &Resource::own(who, What::Runs))
            .map_err(|denied| ApiError::denied(denied, Thing::Run))?;
        self.head(who, Action::ReadRun, source).await.map(drop)
    }

    /// Forks a run as its log stands. A fork belongs to the tenant and workspace of its source; in
    /// a branch it is the caller who acts.
    ///
    /// # Errors
    /// `NotFound` and `Erased` for the source, `Fork` where it cannot be cut, `Invalid` for an
    /// overlay that does not fit. Nothing is made then.
    pub async fn fork_run(
        &self,
        who: &Principal,
        source: &StreamId,
        request: ForkRequest,
    ) -> Result<ForkedRun, ApiError> {
        self.may_fork(who, source).await?;
        if let Some(again) = self.forked_before(who, &request).await? {
            return Ok(again);
        }
        let run = self.run(who, source).await?;
        if request.mode == ForkMode::Replay && !request.overlay.is_empty() {
            return Err(ApiError::Fork(ForkError::OverlayOnReplay));
        }
        let (overlay, policy) = self.laid_over(&run, request.overlay.clone())?;
        let now = self.door().store().now();
        let keyed = request.keyed.iter();
        let order = ForkOrder {
            overlay,
            policy,
            by: Some(who.actor(None)),
            keys: keyed.map(|keyed| keyed.claim(who, None, now)).collect(),
            trace: request.trace.clone(),
            ..ForkOrder::new(request.mode, request.from)
        };
        let (engine, source) = (self.engine.clone(), source.clone());
        // A fork of several appends goes on when nobody waits for its answer any more.
        let fork = async move { engine.fork(&source, order).await };
        let forked = self.engine.inner.tasks.spawn(fork).await;
        let stopped = |_| StoreError::Unavailable("the fork was stopped".into());
        match forked.map_err(stopped)? {
            Ok(forked) => {
                let header = &forked.run.header;
                let run = header.stream.clone();
                let message = MessageId::new(format!("forked.{run}"));
                let (store, made) = (self.door().store(), (&run, &header.owner));
                let (action, id) = (AuditAction::RunForked, request.request_id.as_deref());
                let told = trail::record_done(&**store, who, action, made, message, id).await;
                self.door().hints().audit(false);
                if let Err(error) = told {
                    // The fork is made: whoever asked is told so all the same.
                    tracing::warn!(%error, %run, "a fork is not on the trail");
                }
                Ok(ForkedRun::of(run, &request, forked.answer, false))
            }
            // An equal request was faster by a moment.
            Err(ForkFailed::Door(DoorError::KeyTaken { .. })) => {
                let again = self.forked_before(who, &request).await?;
                again.ok_or(ApiError::KeyInFlight)
            }
            Err(failed) => Err(failed.into()),
        }
    }

    /// The fork that an equal request made.
    async fn forked_before(
        &self,
        who: &Principal,
        request: &ForkRequest,
    ) -> Result<Option<ForkedRun>, ApiError> {
        let Some(keyed) = &request.keyed else {
            return Ok(None);
        };
        let Some(Replayed { run, answer }) = self.replayed(who, keyed).await? else {
            return Ok(None);
        };
        let answer = serde_json::from_str(&answer)
            .map_err(|_| StoreError::Corrupt("the answer of a fork cannot be read".into()))?;
        Ok(Some(ForkedRun::of(run, request, answer, true)))
    }

    /// An overlay as the fork keeps it, and how it is driven where that changes.
    fn laid_over(
        &self,
        source: &Run,
        overlay: Overlay,
    ) -> Result<(Overlay, Option<Policy>), ApiError> {
        let Some(facts) = source.facts() else {
            return Ok((overlay, None));
        };
        let over = overlay.configurable.as_ref();
        let mut problems = Problems::new();
        over.map_or(Ok(()), |over| {
            options::check_test_provider(over, self.test_provider, &mut problems)
        })?;
        if let Some(tags) = &overlay.tags {
            options::check_tags(tags, &mut problems);
        }
        let mut policy = None;
        let configurable = overlay.configurable.map(|over| {
            let laid = laid(&facts.configurable, over);
            let of_source = &source.header.policy;
            policy = Some(Policy {
                queue: of_source.queue.clone(),
                priority: of_source.priority,
                concurrency_key: of_source.concurrency_key.clone(),
                max_parallel: of_source.max_parallel,
                ..options::policy(&laid, &mut problems)
            });
            if let Some(policy) = &policy {
                let models = self.engine.models();
                options::check_prices(&source.plan, policy, &laid, models, &mut problems);
            }
            self.schemas.check(&source.plan, &laid, &mut problems);
            laid
        });
        problems.or(()).map_err(|problems| ApiError::Invalid {
            what: "request",
            problems,
        })?;
        let metadata = overlay.metadata.map(|over| laid(&facts.metadata, over));
        let overlay = Overlay {
            tags: overlay.tags,
            metadata,
            configurable,
        };
        Ok((overlay, policy))
    }

    /// Where a run comes from. What stands behind the caller's walls is not told.
    ///
    /// # Errors
    /// As [`Api::version`].
    pub async fn lineage(&self, who: &Principal, run: &StreamId) -> Result<Lineage, ApiError> {
        let header = self.head(who, Action::ReadRun, run).await?.header;
        let source = header.origin.as_ref();
        let source = source.map(|origin| (origin.source.clone(), origin.seq, origin.mode));
        // Its parent started the source, not the fork.
        let parent = match (&source, header.parent) {
            (None, Some(parent)) => {
                let node_type = match self.run(who, &parent.run).await {
                    Ok(run) => {
                        let node = run.plan.node_ix(parent.node.as_str());
                        node.map(|ix| run.plan.node(ix).type_id.clone())
                    }
                    Err(ApiError::NotFound(_) | ApiError::Erased { .. }) => None,
                    Err(error) => return Err(error),
                };
                Some((parent.run, node_type))
            }
            _ => None,
        };
        Ok(Lineage { parent, source })
    }
}

/// Settings over settings, name by name.
fn laid(under: &Map<String, Value>, over: Map<String, Value>) -> Map<String, Value> {
    let mut laid = under.clone();
    laid.extend(over);
    laid
}
