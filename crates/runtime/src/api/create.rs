//! Creating runs.

use kernel::definition::Plan;
use kernel::ids::StreamId;
use kernel::problem::{ProblemCode, Problems};
use kernel::run::RunStatus;
use kernel::run::{Create, Rejection, Run, Start};
use kernel::stream::{DefinitionRef, Owner, QuestionNotices};
use kernel::trace::TraceContext;
use kernel::{ENGINE_VERSION, ENGINE_VERSIONS};
use serde_json::{Map, Value};
use std::sync::Arc;
use store::{ListQuery, StoreError};

use super::error::ResourceKind;
use super::idempotency::{KeyedBy, Replayed};
use super::{Api, ApiError, options};
use crate::access::{Action, Principal, Resource, What, authorise};
use crate::created_record::CreatedRecord;
use crate::door::{DoorError, new_run_id};
use crate::engine::NewRun;
use crate::plans::Prepared;
use crate::telemetry;

/// A run to create.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names of most fields say it")]
pub struct CreateRunRequest {
    /// The workflow's name.
    pub workflow: String,
    pub inputs: Map<String, Value>,
    /// The tenant the caller names; must be its own.
    pub tenant: Option<String>,
    /// The workspace the run is for.
    pub scope: Option<String>,
    pub tags: Vec<String>,
    pub metadata: Map<String, Value>,
    /// Settings that overlay the workflow's.
    pub configurable: Map<String, Value>,
    /// The address for notices of the run's questions.
    pub question_notices: Option<QuestionNotices>,
    /// The transport, as events record it.
    pub transport: &'static str,
    /// Whether another active run of the same workflow and scope blocks this one.
    pub duplicate_runs: DuplicateRuns,
    /// The span of the request.
    pub trace: Option<TraceContext>,
    /// The id of the request, for the audit trail.
    pub request_id: Option<String>,
    /// The idempotency key.
    pub keyed: Option<KeyedBy>,
    /// The engine version whose rules decide, if not this engine's: for test keys.
    pub engine_version: Option<u32>,
}

/// Whether several runs of one workflow and scope may be active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateRuns {
    /// Yes.
    Allowed,
    /// This run is rejected while another is active.
    Refused,
}

/// A created run.
#[derive(Clone, Debug)]
pub enum Created {
    /// By this request.
    Fresh {
        /// The run.
        run: StreamId,
        /// Its status as answered.
        status: RunStatus,
    },
    /// By an equal earlier request.
    Again(Replayed),
}

impl Api {
    /// Creates a run and drives it at once if there is capacity; otherwise it waits in the queue.
    ///
    /// # Errors
    /// See [`ApiError`]; nothing is created then.
    pub async fn create_run(
        &self,
        who: &Principal,
        order: CreateRunRequest,
    ) -> Result<Created, ApiError> {
        let transport = order.transport;
        let created = self.create(who, order).await;
        if let Err(ApiError::Active { run }) = &created {
            self.door()
                .hints()
                .meters()
                .conflict(&who.tenant, transport);
            telemetry::conflict(&who.tenant, transport, run);
        }
        created
    }

    async fn create(&self, who: &Principal, order: CreateRunRequest) -> Result<Created, ApiError> {
        authorise(who, Action::CreateRun, &Resource::own(who, What::Runs))
            .map_err(|denied| ApiError::denied(denied, ResourceKind::Run))?;
        let owner = owner(who, &order)?;
        if let Some(keyed) = &order.keyed
            && let Some(again) = self.replayed(who, keyed).await?
        {
            return Ok(Created::Again(again));
        }
        let mut problems = Problems::new();
        options::check_test_provider(&order.configurable, self.test_provider, &mut problems)?;
        self.check_engine_version(order.engine_version)?;
        let mut policy = options::policy(&order.configurable, &mut problems);
        options::check_tags(&order.tags, &mut problems);
        options::check_provider(&order.configurable, self.engine.models(), &mut problems);
        let named = self
            .door()
            .usable_workflow(&owner.tenant, &order.workflow)
            .await?;
        let definition = match named {
            Some(definition) => definition,
            None if problems.is_empty() => return Err(ApiError::NotFound(ResourceKind::Workflow)),
            None => return Err(invalid("request", problems)),
        };
        let plan = self.plan(&owner, &definition).await?;
        let misspelt = plan.misspelt_inputs(&order.inputs);
        misspelt
            .or(())
            .map_err(|problems| DoorError::Rejected(Rejection::InvalidInputs(problems)))?;
        self.check_programs(&owner.tenant, definition.put_by, &plan)?;
        options::check_keys(&plan, &order.configurable, &mut problems);
        let models = self.engine.models();
        let named = (&*plan, "/workflowId");
        options::check_prices(named, &policy, &order.configurable, models, &mut problems);
        self.schemas
            .check(&plan, &order.configurable, &mut problems);
        problems.or(()).map_err(|p| invalid("request", p))?;
        if let Some(notices) = order.question_notices {
            let request_id = order.request_id.as_deref();
            self.prepare_notices(who, &notices, request_id).await?;
            policy.question_notices = Some(notices);
        }

        let _alone = match order.duplicate_runs {
            DuplicateRuns::Allowed => None,
            DuplicateRuns::Refused => Some(self.duplicate_runs.lock().await),
        };
        let mut keys = Vec::new();
        if order.duplicate_runs == DuplicateRuns::Refused {
            keys.push(self.only_one(&owner, &order.workflow).await?);
        }
        let slot = self.engine.slot();
        let (start, status) = match slot {
            Some(_) => (Start::Now, RunStatus::Running),
            None => (Start::WhenClaimed, RunStatus::Pending),
        };
        let now = self.door().store().now();
        let run = new_run_id();
        keys.extend(order.keyed.iter().map(|keyed| {
            let made = CreatedRecord {
                run: run.as_str().into(),
                said: status.as_str().into(),
            };
            keyed.claim(who, Some(made), now)
        }));
        let mut create = Create::new(order.inputs, order.transport, start);
        create.tags = order.tags;
        create.metadata = order.metadata;
        create.configurable = order.configurable;
        create.request_id = order.request_id;
        create.engine_version = order.engine_version.unwrap_or(ENGINE_VERSION);
        let new = NewRun {
            owner: owner.clone(),
            prepared: Prepared {
                definition: definition.clone(),
                plan,
            },
            create,
            policy,
            trace: order.trace,
            id: Some(run.clone()),
            nonce: None,
            keys,
        };
        match self.engine.create_in(new.clone(), slot).await {
            Ok(_) => Ok(Created::Fresh { run, status }),
            Err(DoorError::Store(StoreError::Missing)) => {
                // The copy of a shared definition was collected because no run referred to it.
                self.door().copy_again(&owner.tenant, &definition);
                self.door()
                    .usable_workflow(&owner.tenant, &order.workflow)
                    .await?;
                let slot = self.engine.slot();
                self.engine.create_in(new, slot).await?;
                Ok(Created::Fresh { run, status })
            }
            Err(DoorError::KeyTaken { .. }) => {
                // An equal request won the race.
                if let Some(keyed) = &order.keyed
                    && let Some(again) = self.replayed(who, keyed).await?
                {
                    return Ok(Created::Again(again));
                }
                match self.active(&owner, &order.workflow).await? {
                    Some(run) => Err(ApiError::Active { run }),
                    None => Err(ApiError::KeyInFlight),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    fn check_engine_version(&self, wanted: Option<u32>) -> Result<(), ApiError> {
        match wanted {
            None => Ok(()),
            Some(_) if !self.test_provider => Err(ApiError::EngineForTestsOnly),
            Some(version) if ENGINE_VERSIONS.contains(&version) => Ok(()),
            Some(_) => Err(ApiError::NoSuchEngine),
        }
    }

    async fn plan(&self, owner: &Owner, definition: &DefinitionRef) -> Result<Arc<Plan>, ApiError> {
        let (plans, store) = (self.door().plans(), self.door().store());
        let corrupt = match plans.load(&**store, &owner.tenant, definition).await {
            Ok(plan) => return Ok(plan),
            Err(StoreError::Corrupt(what)) => StoreError::Corrupt(what),
            Err(error) => return Err(error.into()),
        };
        let document = store.blob(&owner.tenant, &definition.digest).await?;
        let Ok(plan) = plans.of_stored(&document) else {
            return Err(corrupt.into());
        };
        match plans.unknown_type(&plan) {
            Some(node) => Err(ApiError::UnknownType {
                node: node.id.to_string(),
                type_id: node.type_id.clone(),
            }),
            None => Err(corrupt.into()),
        }
    }

    /// A key that only one of two racing creations can claim: both name the last run they saw.
    async fn only_one(
        &self,
        owner: &Owner,
        workflow: &str,
    ) -> Result<kernel::batch::KeyClaim, ApiError> {
        if let Some(run) = self.active(owner, workflow).await? {
            return Err(ApiError::Active { run });
        }
        let last = self.runs_of(owner, workflow, &[], 1).await?.pop();
        let last = last.map_or_else(String::new, |run| run.to_string());
        let scope = owner.workspace.as_deref().unwrap_or_default();
        let text = format!("{workflow}\0{scope}\0{last}");
        Ok(kernel::batch::KeyClaim {
            namespace: "dedup".into(),
            key: kernel::digest::Digest::compute(text.as_bytes()).to_string(),
            digest: None,
            answer: None,
            expires_at: Some(self.door().store().now().plus_ms(24 * 3_600_000)),
        })
    }

    async fn active(&self, owner: &Owner, workflow: &str) -> Result<Option<StreamId>, ApiError> {
        Ok(self
            .runs_of(owner, workflow, &RunStatus::ACTIVE, 1)
            .await?
            .pop())
    }

    /// The newest runs of a workflow in exactly the owner's workspace.
    async fn runs_of(
        &self,
        owner: &Owner,
        workflow: &str,
        statuses: &[RunStatus],
        limit: usize,
    ) -> Result<Vec<StreamId>, ApiError> {
        const SEEN: usize = 256;
        let query = ListQuery {
            tenant: Some(owner.tenant.clone()),
            workspace: owner.workspace.clone(),
            kind: Some(kernel::stream::StreamKind::Run),
            subject: Some(workflow.to_owned()),
            statuses: statuses.iter().map(RunStatus::to_string).collect(),
            limit: SEEN,
            ..ListQuery::default()
        };
        let rows = self.door().store().list(query).await?;
        let own = rows
            .into_iter()
            .filter(|row| row.index.workspace == owner.workspace);
        Ok(own.take(limit).map(|row| row.stream).collect())
    }
}

fn invalid(what: &'static str, problems: Problems) -> ApiError {
    ApiError::Invalid { what, problems }
}

/// The owner of the run: the caller, optionally narrowed to a workspace.
fn owner(who: &Principal, order: &CreateRunRequest) -> Result<Owner, ApiError> {
    let mut owner = who.owner();
    if order
        .tenant
        .as_deref()
        .is_some_and(|tenant| tenant != owner.tenant.as_str())
    {
        return Err(ApiError::NotTheirs);
    }
    match (&owner.workspace, &order.scope) {
        (_, None) => {}
        (Some(workspace), Some(scope)) if workspace == scope => {}
        (Some(_), Some(_)) => return Err(ApiError::NotTheirs),
        (None, Some(scope)) => {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
            if scope.is_empty() || scope.len() > 128 || !scope.chars().all(is_plain) {
                let mut problems = Problems::new();
                let what = "has 1 to 128 letters, digits and -_.:/";
                problems.add("/scopeId", ProblemCode::InvalidValue, what);
                return Err(invalid("request", problems));
            }
            owner.workspace = Some(scope.clone());
        }
    }
    Ok(owner)
}

/// The status of a run as the wire names it.
pub(super) fn status_of(run: &Run) -> RunStatus {
    run.status()
}
