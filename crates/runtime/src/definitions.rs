//! The mapping of workflow names to definitions, per tenant.
//!
//! A tenant has its own registry. Names missing there are looked up in the registry of
//! [`shared_tenant`], from which every tenant may run: the definitions that a host registers from
//! its folders. A tenant's own name has precedence. A shared definition is copied under the tenant
//! at its first use, because a run refers to blobs of its own tenant only.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kernel::digest::Digest;
use kernel::ids::TenantId;
use kernel::registry::Registry;
use kernel::stream::{DefinitionRef, PutBy};
use parking_lot::Mutex;
use store::{BLOB_GRACE, StoreError};
use tokio::time::Instant;

use crate::door::Door;

/// The longest delay until another process's change of a registry is seen.
const FRESH: Duration = Duration::from_secs(1);
/// Registries cached; above this number the cache is emptied.
const KEPT: usize = 1_024;
/// Copies remembered; above this number the set is emptied and each copy is checked again.
const COPIES: usize = 16_384;

/// The tenant whose registry every tenant may run from. No credential names this tenant: tenant
/// names of credentials have no asterisk.
pub fn shared_tenant() -> TenantId {
    TenantId::new("*")
}

/// This process's cache of registries.
#[derive(Default)]
pub(crate) struct Definitions {
    registries: Mutex<HashMap<TenantId, (Instant, Arc<Registry>)>>,
    /// Incremented by every put of this process: a registry read before a put is not cached.
    puts: AtomicU64,
    copied: Mutex<HashMap<(TenantId, Digest), Instant>>,
}

impl Definitions {
    /// Invalidates a registry that this process changed.
    pub(crate) fn changed(&self, tenant: &TenantId) {
        self.puts.fetch_add(1, Ordering::AcqRel);
        self.registries.lock().remove(tenant);
    }
}

/// A definition of a registry. Shared definitions are attributed to the operator.
fn by_owner(definition: &DefinitionRef, from: &TenantId) -> DefinitionRef {
    let mut definition = definition.clone();
    if *from == shared_tenant() {
        definition.put_by = PutBy::Operator;
    }
    definition
}

/// A definition found by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The definition.
    pub definition: DefinitionRef,
    /// The tenant whose registry names it.
    pub from: TenantId,
}

impl Door {
    /// The definition of a name: the tenant's own or a shared one. A change by another process may
    /// take a moment to be seen.
    ///
    /// # Errors
    /// The store's.
    pub async fn named_workflow(
        &self,
        tenant: &TenantId,
        name: &str,
    ) -> Result<Option<Named>, StoreError> {
        for from in [tenant.clone(), shared_tenant()] {
            let registry = self.fresh_registry(&from).await?;
            if let Some(definition) = registry.workflow(name) {
                let definition = by_owner(definition, &from);
                return Ok(Some(Named { definition, from }));
            }
        }
        Ok(None)
    }

    /// Every name a tenant may run. The tenant's own hides a shared one of the same name.
    ///
    /// # Errors
    /// The store's.
    pub async fn named_workflows(&self, tenant: &TenantId) -> Result<Vec<Named>, StoreError> {
        let mut all = std::collections::BTreeMap::new();
        for from in [shared_tenant(), tenant.clone()] {
            let registry = self.fresh_registry(&from).await?;
            all.extend(registry.workflows().map(|definition| {
                let named = Named {
                    definition: by_owner(definition, &from),
                    from: from.clone(),
                };
                (definition.workflow.clone(), named)
            }));
        }
        Ok(all.into_values().collect())
    }

    /// As [`Door::named_workflow`], and copies the document under the tenant, so that its runs may
    /// refer to it.
    ///
    /// # Errors
    /// The store's.
    pub async fn usable_workflow(
        &self,
        tenant: &TenantId,
        name: &str,
    ) -> Result<Option<DefinitionRef>, StoreError> {
        let Some(Named { definition, from }) = self.named_workflow(tenant, name).await? else {
            return Ok(None);
        };
        let copy = (tenant.clone(), definition.digest);
        // An unreferenced copy is collected after its grace period; a new put restarts it.
        let is_copied = (self.definitions.copied.lock().get(&copy))
            .is_some_and(|at| at.elapsed() < BLOB_GRACE / 2);
        if from != *tenant && !is_copied {
            let document = self.store().blob(&from, &definition.digest).await?;
            self.store().put_blob(tenant, document).await?;
            let mut copied = self.definitions.copied.lock();
            if copied.len() >= COPIES {
                copied.clear();
            }
            copied.insert(copy, Instant::now());
        }
        Ok(Some(definition))
    }

    /// Forgets that a definition was copied: an unreferenced blob is eventually collected.
    pub(crate) fn copy_again(&self, tenant: &TenantId, definition: &DefinitionRef) {
        let copy = (tenant.clone(), definition.digest);
        self.definitions.copied.lock().remove(&copy);
    }

    async fn fresh_registry(&self, tenant: &TenantId) -> Result<Arc<Registry>, StoreError> {
        let now = Instant::now();
        if let Some((read, registry)) = self.definitions.registries.lock().get(tenant)
            && now.duration_since(*read) < FRESH
        {
            return Ok(registry.clone());
        }
        let puts = self.definitions.puts.load(Ordering::Acquire);
        let registry = Arc::new(self.workflows(tenant).await?);
        let mut kept = self.definitions.registries.lock();
        if self.definitions.puts.load(Ordering::Acquire) != puts {
            return Ok(registry);
        }
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(tenant.clone(), (now, registry.clone()));
        Ok(registry)
    }
}
