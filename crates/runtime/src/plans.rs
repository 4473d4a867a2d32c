//! Compiled definitions, kept by digest: a definition never changes, so a plan is built once.

use std::collections::HashMap;
use std::sync::Arc;

use kernel::definition::{NodeKind, NodeTypes, Plan, PlanNode, UnknownTypes};
use kernel::digest::Digest;
use kernel::ids::TenantId;
use kernel::json::{self, Limits};
use kernel::limits::{MAX_DEFINITION_BYTES, MAX_JSON_DEPTH};
use kernel::problem::{Problem, ProblemCode, Problems, name_nodes};
use kernel::registry::Rejection;
use kernel::stream::{DefinitionRef, PutBy};
use parking_lot::Mutex;
use serde_json::Value;
use store::{Store, StoreError};

use crate::nodes::Registry;
use crate::redact::literal_secrets;
use crate::schema_words;

/// Plans kept in memory; the least recently asked for go first.
const KEPT: usize = 512;

/// Compiles definitions and keeps the plans.
pub struct Plans {
    registry: Arc<Registry>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    plans: HashMap<(TenantId, Digest), (u64, Arc<Plan>)>,
    clock: u64,
}

/// Why there is no plan.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PlanError {
    /// The document is not a workflow this engine can run.
    #[error("the workflow definition has problems")]
    Invalid(Problems),
    /// Its version is registered with other content.
    #[error("{}", Rejection::VersionTaken)]
    VersionTaken,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A definition that was checked and lies in the store.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Where it lies.
    pub definition: DefinitionRef,
    /// The plan.
    pub plan: Arc<Plan>,
}

/// Refuses a `configurableSchema` that is none: every run would be refused by it.
fn check_schema(plan: &Plan) -> Result<(), Problems> {
    let Some(schema) = &plan.configurable_schema else {
        return Ok(());
    };
    let mut problems = Problems::new();
    if let Some((path, what)) = schema_words::wrong_schema(schema) {
        let path = format!("/configurableSchema{path}");
        problems.add(path, ProblemCode::InvalidValue, what);
    }
    problems.or(())
}

impl Plans {
    /// Plans over these node types.
    pub fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            kept: Mutex::default(),
        }
    }

    /// The node types plans are made of.
    pub(crate) fn nodes(&self) -> &Registry {
        &self.registry
    }

    /// Reads and compiles a document, without keeping it anywhere.
    ///
    /// # Errors
    /// Every problem of the document at once.
    pub fn compile(&self, document: &[u8]) -> Result<(Arc<Plan>, Vec<u8>), Problems> {
        let limits = Limits {
            max_bytes: MAX_DEFINITION_BYTES,
            max_depth: MAX_JSON_DEPTH,
        };
        let value = json::parse(document, limits)?;
        let plan = self.compiled(document, &value, UnknownTypes::Refuse)?;
        Ok((Arc::new(plan), json::canonical(&value)))
    }

    /// As [`Plans::compile`], for a document that is kept and not run: node types this engine
    /// does not have are warnings of the plan, and [`Plans::unknown_type`] names the first.
    ///
    /// # Errors
    /// Every other problem of the document at once.
    pub fn compile_lenient(&self, document: &[u8]) -> Result<(Plan, Vec<u8>), Problems> {
        let value = json::parse(document, Limits::DEFINITION)?;
        let plan = self.compiled(document, &value, UnknownTypes::Warn)?;
        Ok((plan, json::canonical(&value)))
    }

    /// The plan of a new document, whose problems say where in the text they are.
    fn compiled(
        &self,
        document: &[u8],
        value: &Value,
        unknown: UnknownTypes,
    ) -> Result<Plan, Problems> {
        let place = |problems: &mut [Problem]| {
            json::locate(document, problems);
            name_nodes(value, problems);
        };
        let compiled = Plan::from_json(value, &*self.registry, unknown);
        match compiled.and_then(|plan| check_schema(&plan).map(|()| plan)) {
            Ok(mut plan) => {
                plan.warnings.extend(literal_secrets(value));
                place(&mut plan.warnings);
                Ok(plan)
            }
            Err(mut problems) => {
                place(&mut problems.listed);
                Err(problems)
            }
        }
    }

    /// The plan of a document that was registered before, perhaps by an earlier version: no rule of
    /// registration is asked, and node types this engine does not have are warnings.
    ///
    /// # Errors
    /// What keeps the document from being a workflow.
    pub fn of_stored(&self, document: &[u8]) -> Result<Plan, Problems> {
        self.stored(document, UnknownTypes::Warn)
    }

    fn stored(&self, document: &[u8], unknown: UnknownTypes) -> Result<Plan, Problems> {
        let value = json::parse(document, Limits::DEFINITION)?;
        Plan::from_stored(&value, &*self.registry, unknown)
    }

    /// The first node of a plan whose type this engine does not have.
    pub fn unknown_type<'a>(&self, plan: &'a Plan) -> Option<&'a PlanNode> {
        plan.nodes
            .iter()
            .find(|node| node.kind == NodeKind::Work && self.registry.kind(&node.type_id).is_none())
    }

    /// Checks a document of the operator and puts it into the store under its digest.
    ///
    /// # Errors
    /// Its problems, or the store's.
    pub async fn prepare(
        &self,
        store: &dyn Store,
        tenant: &TenantId,
        document: &[u8],
    ) -> Result<Prepared, PlanError> {
        let (plan, canonical) = self.compile(document).map_err(PlanError::Invalid)?;
        let digest = store.put_blob(tenant, canonical).await?;
        let definition = DefinitionRef {
            workflow: plan.workflow.clone(),
            version: plan.version.clone(),
            digest,
            put_by: PutBy::Operator,
        };
        self.keep(tenant, digest, plan.clone());
        Ok(Prepared { definition, plan })
    }

    /// The plan of a definition that lies in the store.
    ///
    /// # Errors
    /// `Missing` or `Corrupt` where the document is gone or not a workflow any more.
    pub async fn load(
        &self,
        store: &dyn Store,
        tenant: &TenantId,
        definition: &DefinitionRef,
    ) -> Result<Arc<Plan>, StoreError> {
        if let Some(plan) = self.kept(tenant, definition.digest) {
            return Ok(plan);
        }
        let document = store.blob(tenant, &definition.digest).await?;
        let stored = self.stored(&document, UnknownTypes::Refuse);
        let plan = Arc::new(stored.map_err(|problems| {
            StoreError::Corrupt(format!(
                "workflow {} was stored, but this engine cannot read it: {problems}",
                definition.workflow
            ))
        })?);
        self.keep(tenant, definition.digest, plan.clone());
        Ok(plan)
    }

    fn kept(&self, tenant: &TenantId, digest: Digest) -> Option<Arc<Plan>> {
        let mut kept = self.kept.lock();
        kept.clock += 1;
        let now = kept.clock;
        let (used, plan) = kept.plans.get_mut(&(tenant.clone(), digest))?;
        *used = now;
        Some(plan.clone())
    }

    fn keep(&self, tenant: &TenantId, digest: Digest, plan: Arc<Plan>) {
        let mut kept = self.kept.lock();
        kept.clock += 1;
        let now = kept.clock;
        kept.plans.insert((tenant.clone(), digest), (now, plan));
        if kept.plans.len() > KEPT {
            let oldest = kept.plans.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(key) = oldest.map(|(key, _)| key.clone()) {
                kept.plans.remove(&key);
            }
        }
    }
}
