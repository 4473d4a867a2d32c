//! The door to the registry of a tenant: its workflows and keys.

use kernel::audit::Actor;
use kernel::ids::TenantId;
use kernel::registry::{Registry, RegistryCommand, Rejection};
use kernel::stream::DefinitionRef;
use store::{Guard, HoldChange, Position, ReadFrom, StoreError};

use super::{Door, TRIES};
use crate::plans::PlanError;

/// Why a command to a registry had no effect.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RegistryError {
    /// The rules refuse it; nothing was written.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Door {
    /// Lets a workflow's name stand for a definition that lies in the store. Putting what stands
    /// there already is no error.
    ///
    /// # Errors
    /// `VersionTaken` where the workflow's version stands for another document, or the store's.
    pub async fn put_workflow(
        &self,
        tenant: &TenantId,
        definition: &DefinitionRef,
        by: &Actor,
    ) -> Result<(), PlanError> {
        let definition = definition.clone();
        let put = RegistryCommand::PutWorkflow { definition };
        match self.registry_command(tenant, &put, by).await {
            Err(RegistryError::Rejected(Rejection::VersionTaken)) => Err(PlanError::VersionTaken),
            // Of a workflow the registry refuses nothing else but what it says already.
            Ok(_) | Err(RegistryError::Rejected(_)) => Ok(()),
            Err(RegistryError::Store(error)) => Err(error.into()),
        }
    }

    /// Tells a registry something, and answers where in the feed it stands. A lost race is decided
    /// again on what won.
    ///
    /// # Errors
    /// The rejection, or the store's error.
    pub async fn registry_command(
        &self,
        tenant: &TenantId,
        command: &RegistryCommand,
        by: &Actor,
    ) -> Result<Position, RegistryError> {
        let mut tries = 0;
        loop {
            let registry = self.workflows(tenant).await?;
            let batch = registry.decide(command.clone(), by, self.store.now())?;
            let appended = self
                .store
                .append(batch, Guard::Outside, HoldChange::Keep)
                .await;
            match appended {
                Ok(appended) => {
                    // Each of its batches tells the audit trail.
                    self.hints.outbox();
                    self.hints.feed();
                    self.definitions.changed(tenant);
                    return Ok(appended.position);
                }
                Err(StoreError::Conflict(_)) if tries < TRIES => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The registry of a tenant; empty where nothing was put yet.
    ///
    /// # Errors
    /// The store's.
    pub async fn workflows(&self, tenant: &TenantId) -> Result<Registry, StoreError> {
        let stream = Registry::stream(tenant);
        let loaded = match self.store.load(&stream, ReadFrom::Seq(0), usize::MAX).await {
            Ok(loaded) => loaded,
            Err(StoreError::Missing) => {
                return Ok(Registry::unborn(tenant, self.store.now()));
            }
            Err(error) => return Err(error),
        };
        let mut registry = Registry::at_start(loaded.header);
        for record in &loaded.records {
            registry.fold_content(&record.content).ok_or_else(|| {
                StoreError::Corrupt(format!("the registry of tenant {tenant} does not fold"))
            })?;
        }
        Ok(registry)
    }
}
