//! Workflows: reading and registering them.

use kernel::audit::Actor;
use kernel::definition::Plan;
use kernel::ids::{StreamId, TenantId};
use kernel::problem::{Problem, Problems};
use kernel::stream::{DefinitionRef, PutBy};
use serde_json::Value;
use store::StoreError;

use super::error::ResourceKind;
use super::{Api, ApiError};
use crate::access::{Action, Principal, Resource, What, authorise};
use crate::definitions::Named;
use crate::door::Door;
use crate::plans::PlanError;

/// A registered definition.
#[derive(Clone, Debug)]
pub struct Registered {
    /// The definition.
    pub definition: DefinitionRef,
    /// Oddities that do not prevent registration.
    pub warnings: Vec<Problem>,
}

/// The result of a check.
#[derive(Debug)]
pub enum CheckedWorkflow {
    /// It can be registered; the plan has its warnings.
    Valid(Plan),
    /// It cannot, for these reasons.
    Invalid(Problems),
}

/// A workflow in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The definition.
    pub definition: DefinitionRef,
    /// Whether it is shared with every tenant.
    pub shared: bool,
}

impl Api {
    /// The document registered under a workflow's name.
    ///
    /// # Errors
    /// `NotFound` if the caller may run no workflow of that name.
    pub async fn workflow(&self, who: &Principal, name: &str) -> Result<Value, ApiError> {
        self.permit_workflows(who, Action::ReadWorkflows)?;
        let named = self.door().named_workflow(&who.tenant, name).await?;
        let Some(Named { definition, from }) = named else {
            return Err(ApiError::NotFound(ResourceKind::Workflow));
        };
        let document = self.door().store().blob(&from, &definition.digest).await?;
        serde_json::from_slice(&document).map_err(|error| {
            StoreError::Corrupt(format!("workflow {name} is not JSON: {error}")).into()
        })
    }

    /// The document that a run follows, which may no longer be registered.
    ///
    /// # Errors
    /// A missing scope; `NotFound` if the run does not exist, is not visible to the caller, or was
    /// recorded by a browser app.
    pub async fn workflow_of_run(
        &self,
        who: &Principal,
        run: &StreamId,
    ) -> Result<Value, ApiError> {
        let header = self.head(who, Action::ReadRun, run).await?.header;
        self.permit_workflows(who, Action::ReadWorkflows)?;
        let missing = || ApiError::NotFound(ResourceKind::Workflow);
        let definition = header.definition.as_ref().ok_or_else(missing)?;
        let document = self
            .door()
            .store()
            .blob(header.tenant(), &definition.digest);
        serde_json::from_slice(&document.await?).map_err(|error| {
            StoreError::Corrupt(format!("the definition of {run} is not JSON: {error}")).into()
        })
    }

    /// The plan registered under a workflow's name.
    ///
    /// # Errors
    /// As [`Api::workflow`].
    pub async fn workflow_plan(&self, who: &Principal, name: &str) -> Result<Plan, ApiError> {
        let document = self.workflow(who, name).await?.to_string();
        let plan = self.door().plans().of_stored(document.as_bytes());
        plan.map_err(|problems| {
            StoreError::Corrupt(format!("workflow {name} cannot be read: {problems}")).into()
        })
    }

    /// Compiles a document without registering it.
    ///
    /// # Errors
    /// A missing scope.
    pub fn check_workflow(
        &self,
        who: &Principal,
        document: &[u8],
    ) -> Result<CheckedWorkflow, ApiError> {
        self.permit_workflows(who, Action::ReadWorkflows)?;
        let compiled = self.door().plans().compile_lenient(document);
        Ok(match compiled {
            Ok((plan, _)) => CheckedWorkflow::Valid(plan),
            Err(problems) => CheckedWorkflow::Invalid(problems),
        })
    }

    /// Every workflow the caller may run, by name.
    ///
    /// # Errors
    /// A missing scope, or the store's.
    pub async fn workflows(&self, who: &Principal) -> Result<Vec<Described>, ApiError> {
        self.permit_workflows(who, Action::ReadWorkflows)?;
        let named = self.door().named_workflows(&who.tenant).await?;
        let described = named
            .into_iter()
            .map(|Named { definition, from }| Described {
                definition,
                shared: from != who.tenant,
            });
        Ok(described.collect())
    }

    /// Registers a document under a workflow's name for the caller's tenant.
    ///
    /// # Errors
    /// All problems of the document, except node types this engine does not have: those are
    /// warnings, and its runs are rejected.
    pub async fn put_workflow(
        &self,
        who: &Principal,
        document: &[u8],
        request_id: Option<&str>,
    ) -> Result<Registered, ApiError> {
        self.permit_workflows(who, Action::WriteWorkflows)?;
        let compiled = self.door().plans().compile_lenient(document);
        let (plan, canonical) = compiled.map_err(PlanError::Invalid)?;
        let put_by = self.engine.programs().put_by(&who.tenant);
        self.check_programs(&who.tenant, put_by, &plan)?;
        let by = who.actor(request_id);
        let put = self
            .door()
            .put_compiled(&who.tenant, (plan, canonical), put_by, &by);
        Ok(put.await?)
    }

    pub(super) fn permit_workflows(&self, who: &Principal, action: Action) -> Result<(), ApiError> {
        authorise(who, action, &Resource::own(who, What::Workflows))
            .map_err(|denied| ApiError::denied(denied, ResourceKind::Workflow))
    }
}

impl Door {
    /// Registers a document of the operator under its name. In the [shared
    /// tenant](crate::definitions::shared_tenant) every tenant may run it.
    ///
    /// # Errors
    /// As [`Api::put_workflow`].
    pub async fn register(
        &self,
        tenant: &TenantId,
        document: &[u8],
        by: &Actor,
    ) -> Result<Registered, PlanError> {
        let compiled = self.plans().compile_lenient(document);
        let compiled = compiled.map_err(PlanError::Invalid)?;
        self.put_compiled(tenant, compiled, PutBy::Operator, by)
            .await
    }

    async fn put_compiled(
        &self,
        tenant: &TenantId,
        (plan, canonical): (Plan, Vec<u8>),
        put_by: PutBy,
        by: &Actor,
    ) -> Result<Registered, PlanError> {
        let digest = self.store().put_blob(tenant, canonical).await?;
        let definition = DefinitionRef {
            workflow: plan.workflow,
            version: plan.version,
            digest,
            put_by,
        };
        self.put_workflow(tenant, &definition, by).await?;
        Ok(Registered {
            definition,
            warnings: plan.warnings,
        })
    }
}
