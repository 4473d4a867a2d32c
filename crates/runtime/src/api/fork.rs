//! Forking runs, and the lineage of runs.

use std::sync::Arc;

use kernel::audit::AuditAction;
use kernel::definition::Plan;
use kernel::fork::ForkError;
use kernel::ids::{MessageId, Seq, StreamId};
use kernel::problem::Problems;
use kernel::run::{Overlay, Run};
use kernel::stream::{DefinitionRef, ForkMode, Policy};
use kernel::trace::TraceContext;
use serde_json::{Map, Value};
use store::StoreError;

use super::error::ResourceKind;
use super::{Api, ApiError, KeyedBy, Replayed, options};
use crate::access::{Action, Principal, Resource, What, authorise, trail};
use crate::door::{DoorError, ForkAnswer, ForkFailed, ForkSpec};
use crate::plans::PlanError;

/// A fork to make.
#[derive(Clone, Debug)]
pub struct ForkRequest {
    /// Replay or branch.
    pub mode: ForkMode,
    /// Events of the source before this sequence are copied. Optional for a replay.
    pub from: Option<Seq>,
    /// A branch's changes to its source. Settings and metadata are merged name by name; tags
    /// replace the source's.
    pub overlay: Overlay,
    /// Another definition of a branch, as JSON.
    pub definition: Option<Value>,
    /// The span of the request.
    pub trace: Option<TraceContext>,
    /// The idempotency key.
    pub keyed: Option<KeyedBy>,
    /// The id of the request, for the audit trail.
    pub request_id: Option<String>,
}

/// A completed fork.
#[derive(Clone, Debug)]
pub struct ForkedRun {
    /// The fork.
    pub run: StreamId,
    /// The first sequence of its own log. Smaller than the requested one if that would split the
    /// end of a run.
    pub from: Seq,
    /// Its status: a replay has ended, a branch waits in its queue.
    pub status: String,
    /// Where a replay diverged from its source.
    pub diverged_at: Option<Seq>,
    /// Whether an equal earlier request made it.
    pub is_again: bool,
}

impl ForkedRun {
    fn new(run: StreamId, request: &ForkRequest, answer: ForkAnswer, is_again: bool) -> Self {
        Self {
            run,
            from: match (request.mode, request.from) {
                // The events between were decided again with the same result, or `replay.diverged`
                // names the difference.
                (ForkMode::Replay, Some(asked)) => asked,
                _ => answer.cut,
            },
            status: answer.status,
            diverged_at: answer.diverged_at,
            is_again,
        }
    }
}

/// The lineage of a run.
#[derive(Clone, Debug)]
pub struct Lineage {
    /// The run that started it, with the type of the starting node if the parent still exists.
    pub parent: Option<(StreamId, Option<String>)>,
    /// The run it was forked from.
    pub source: Option<(StreamId, Seq, ForkMode)>,
}

impl Api {
    /// Checks that the caller may fork a run that exists.
    ///
    /// # Errors
    /// As [`Api::fork_run`].
    pub async fn may_fork(&self, who: &Principal, source: &StreamId) -> Result<(), ApiError> {
        authorise(who, Action::CreateRun, &Resource::own(who, What::Runs))
            .map_err(|denied| ApiError::denied(denied, ResourceKind::Run))?;
        self.head(who, Action::ReadRun, source).await.map(drop)
    }

    /// Forks a run at its current log. A fork belongs to the tenant and workspace of its source;
    /// the actor of a branch is the caller.
    ///
    /// # Errors
    /// `NotFound` and `Erased` for the source, `Fork` if it cannot be cut, `Invalid` for an invalid
    /// overlay. Nothing is made then.
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
        let is_changed = !request.overlay.is_empty() || request.definition.is_some();
        if request.mode == ForkMode::Replay && is_changed {
            return Err(ApiError::Fork(ForkError::OverlayOnReplay));
        }
        let definition = match &request.definition {
            Some(document) => Some(self.definition_of_fork(who, document).await?),
            None => None,
        };
        let plan = definition.as_ref().map(|(_, plan)| &**plan);
        let (overlay, policy) = self.laid_over(&run, plan, request.overlay.clone())?;
        let now = self.door().store().now();
        let keyed = request.keyed.iter();
        let order = ForkSpec {
            overlay,
            definition,
            policy,
            by: Some(who.actor(None)),
            keys: keyed.map(|keyed| keyed.claim(who, None, now)).collect(),
            trace: request.trace.clone(),
            ..ForkSpec::new(request.mode, request.from)
        };
        let (engine, source) = (self.engine.clone(), source.clone());
        // A fork takes several appends. It runs as a task to complete even if the request is
        // dropped.
        let fork = async move { engine.fork(&source, order).await };
        let forked = self.engine.inner.tasks.spawn(fork).await;
        let stopped = |_| StoreError::Unavailable("the fork was stopped".into());
        match forked.map_err(stopped)? {
            Ok(forked) => {
                let header = &forked.run.header;
                let run = header.stream.clone();
                let message = MessageId::new(format!("forked.{run}"));
                let (store, on) = (self.door().store(), trail::subject(&run, &header.owner));
                let (made, id) = ((AuditAction::RunForked, on), request.request_id.as_deref());
                let told = trail::record_done(&**store, who, made, message, id).await;
                self.door().hints().audit(false);
                if let Err(error) = told {
                    // The fork is made: the caller receives it even if the audit entry failed.
                    tracing::warn!(%error, %run, "a fork is not on the audit trail");
                }
                Ok(ForkedRun::new(run, &request, forked.answer, false))
            }
            // An equal request won the race.
            Err(ForkFailed::Door(DoorError::KeyTaken { .. })) => {
                let again = self.forked_before(who, &request).await?;
                again.ok_or(ApiError::KeyInFlight)
            }
            Err(failed) => Err(failed.into()),
        }
    }

    /// Compiles and stores the definition of a fork. It is registered under no name.
    async fn definition_of_fork(
        &self,
        who: &Principal,
        document: &Value,
    ) -> Result<(DefinitionRef, Arc<Plan>), ApiError> {
        // Its author may run any program in it, as with a registered one.
        self.permit_workflows(who, Action::WriteWorkflows)?;
        let compiled = self.door().plans().compile(document.to_string().as_bytes());
        let (plan, canonical) = compiled.map_err(PlanError::Invalid)?;
        let put_by = self.engine.programs().put_by(&who.tenant);
        self.check_programs(&who.tenant, put_by, &plan)?;
        let definition = DefinitionRef {
            workflow: plan.workflow.clone(),
            version: plan.version.clone(),
            digest: self.door().store().put_blob(&who.tenant, canonical).await?,
            put_by,
        };
        Ok((definition, plan))
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
        Ok(Some(ForkedRun::new(run, request, answer, true)))
    }

    /// An overlay as the fork stores it, and its policy if that changes. The settings and a cost
    /// limit are checked for the definition of the fork, or else that of its source, with this
    /// server's prices.
    fn laid_over(
        &self,
        source: &Run,
        definition: Option<&Plan>,
        overlay: Overlay,
    ) -> Result<(Overlay, Option<Policy>), ApiError> {
        let Some(facts) = source.facts() else {
            return Ok((overlay, None));
        };
        let over = overlay.configurable.as_ref();
        let mut problems = Problems::new();
        over.map_or(Ok(()), |over| {
            options::check_keys(definition.unwrap_or(&source.plan), over, &mut problems);
            options::check_test_provider(over, self.test_provider, &mut problems)
        })?;
        if let Some(tags) = &overlay.tags {
            options::check_tags(tags, &mut problems);
        }
        let configurable = overlay
            .configurable
            .map(|over| laid(&facts.configurable, over));
        let of_source = &source.header.policy;
        let policy = configurable.as_ref().map(|settings| Policy {
            queue: of_source.queue.clone(),
            priority: of_source.priority,
            concurrency_key: of_source.concurrency_key.clone(),
            max_parallel: of_source.max_parallel,
            ..options::policy(settings, &mut problems)
        });
        if configurable.is_some() || definition.is_some() {
            let settings = configurable.as_ref().unwrap_or(&facts.configurable);
            let plan = definition.unwrap_or(&source.plan);
            let policy = policy.as_ref().unwrap_or(of_source);
            let models = self.engine.models();
            let named = (plan, "/definition");
            options::check_prices(named, policy, settings, models, &mut problems);
            self.schemas.check(plan, settings, &mut problems);
        }
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

    /// The lineage of a run, without runs that the caller may not see.
    ///
    /// # Errors
    /// As [`Api::version`].
    pub async fn lineage(&self, who: &Principal, run: &StreamId) -> Result<Lineage, ApiError> {
        let header = self.head(who, Action::ReadRun, run).await?.header;
        let source = header.origin.as_ref();
        let source = source.map(|origin| (origin.source.clone(), origin.seq, origin.mode));
        // The parent started the source, not the fork.
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

/// Merges settings name by name.
fn laid(under: &Map<String, Value>, over: Map<String, Value>) -> Map<String, Value> {
    let mut laid = under.clone();
    laid.extend(over);
    laid
}
