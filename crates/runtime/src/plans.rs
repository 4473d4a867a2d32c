//! Compiled definitions, cached by digest: a definition never changes, so a plan is built once.

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

/// Plans cached; the least recently used are evicted first.
const KEPT: usize = 512;

/// Compiles definitions and caches the plans.
pub struct Plans {
    registry: Arc<Registry>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    plans: HashMap<(TenantId, Digest), (u64, Arc<Plan>)>,
    clock: u64,
}

/// Why a plan is unavailable.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PlanError {
    /// The document is not a workflow this engine can run.
    #[error("the workflow definition has problems")]
    Invalid(Problems),
    /// The version is registered with other content.
    #[error("{}", Rejection::VersionTaken)]
    VersionTaken,
    /// A store error.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A definition that was checked and stored.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Its reference.
    pub definition: DefinitionRef,
    /// The plan.
    pub plan: Arc<Plan>,
}

/// Rejects an invalid `configurableSchema`: it would reject every run.
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
    /// Plans with these node types.
    pub fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            kept: Mutex::default(),
        }
    }

    /// The node types.
    pub(crate) fn nodes(&self) -> &Registry {
        &self.registry
    }

    /// Parses and compiles a document without storing it.
    ///
    /// # Errors
    /// All problems of the document.
    pub fn compile(&self, document: &[u8]) -> Result<(Arc<Plan>, Vec<u8>), Problems> {
        let limits = Limits {
            max_bytes: MAX_DEFINITION_BYTES,
            max_depth: MAX_JSON_DEPTH,
        };
        let value = json::parse(document, limits)?;
        let plan = self.compiled(document, &value, UnknownTypes::Refuse)?;
        Ok((Arc::new(plan), json::canonical(&value)))
    }

    /// As [`Plans::compile`], for a document that is stored but not run: node types this engine
    /// does not have are warnings of the plan, and [`Plans::unknown_type`] names the first.
    ///
    /// # Errors
    /// All other problems of the document.
    pub fn compile_lenient(&self, document: &[u8]) -> Result<(Plan, Vec<u8>), Problems> {
        let value = json::parse(document, Limits::DEFINITION)?;
        let plan = self.compiled(document, &value, UnknownTypes::Warn)?;
        Ok((plan, json::canonical(&value)))
    }

    /// The plan of a new document; its problems have positions in the text.
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

    /// The plan of a registered document, perhaps of an earlier version: rules for registration do
    /// not apply, and node types this engine does not have are warnings.
    ///
    /// # Errors
    /// Problems that prevent compilation.
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

    /// Checks a document of the operator and stores it under its digest.
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

    /// The plan of a stored definition.
    ///
    /// # Errors
    /// `Missing` or `Corrupt` if the document is gone or no longer a valid workflow.
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
