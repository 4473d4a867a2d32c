//! The door to the registry of a tenant: its workflows and keys.

use kernel::audit::Actor;
use kernel::ids::TenantId;
use kernel::registry::{Registry, RegistryCommand, Rejection};
use kernel::stream::DefinitionRef;
use store::{Position, StoreError};

use super::Door;
use crate::logs;
use crate::plans::PlanError;

/// Why a command to a registry had no effect.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RegistryError {
    /// A rejection by the rules; nothing was written.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// A store error.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Door {
    /// Registers a stored definition under a workflow's name. Registering the current one again is
    /// not an error.
    ///
    /// # Errors
    /// `VersionTaken` if the workflow's version names another document, or the store's.
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
            // The only other rejection of this command: the name already has this definition.
            Ok(_) | Err(RegistryError::Rejected(_)) => Ok(()),
            Err(RegistryError::Store(error)) => Err(error.into()),
        }
    }

    /// Sends a command to a registry, and returns its position in the feed. After a lost race it is
    /// decided again on the new state.
    ///
    /// # Errors
    /// The rejection, or the store's error.
    pub async fn registry_command(
        &self,
        tenant: &TenantId,
        command: &RegistryCommand,
        by: &Actor,
    ) -> Result<Position, RegistryError> {
        let (appended, ()) = self
            .transact_stream(|| async {
                let registry = self.workflows(tenant).await?;
                let batch = registry.decide(command.clone(), by, self.store.now())?;
                Ok::<_, RegistryError>((Some(batch), ()))
            })
            .await?;
        self.definitions.changed(tenant);
        Ok(appended.map_or(Position(0), |appended| appended.position))
    }

    /// The registry of a tenant; empty if it has no log.
    ///
    /// # Errors
    /// The store's.
    pub async fn workflows(&self, tenant: &TenantId) -> Result<Registry, StoreError> {
        let read = logs::whole(&*self.store, &Registry::stream(tenant)).await;
        logs::or_new(read, || Registry::unborn(tenant, self.store.now()))
    }
}
