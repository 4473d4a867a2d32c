//! Reading what nodes produced.

use std::sync::Arc;

use kernel::ids::{NodeId, StreamId, TenantId};
use kernel::run::{Artifact, Run};
use store::{Store, StoreError};

use super::error::Thing;
use super::{Api, ApiError};
use crate::access::{Action, Principal};

/// An artifact that can be read, part by part.
#[derive(Clone)]
pub struct ArtifactBytes {
    /// What the log says of it.
    pub artifact: Artifact,
    store: Arc<dyn Store>,
    tenant: TenantId,
}

impl ArtifactBytes {
    /// How many parts it has.
    pub fn parts(&self) -> usize {
        self.artifact.parts.len()
    }

    /// The bytes of a part.
    ///
    /// # Errors
    /// The store's; `Corrupt` when they are not what they were.
    ///
    /// # Panics
    /// Where there is no such part.
    pub async fn part(&self, n: usize) -> Result<Vec<u8>, StoreError> {
        let digest = &self.artifact.parts[n];
        self.store.blob(&self.tenant, digest).await
    }
}

impl Api {
    /// The artifacts of a run in the order they were made, each with its node.
    ///
    /// # Errors
    /// As [`Api::version`].
    pub async fn artifacts(
        &self,
        who: &Principal,
        run: &StreamId,
    ) -> Result<Vec<(NodeId, Artifact)>, ApiError> {
        let run = self.run_for(who, Action::ReadArtifact, run).await?;
        Ok(of(&run).to_vec())
    }

    /// An artifact by its id.
    ///
    /// # Errors
    /// As [`Api::version`]; `NotFound` where the run has no such artifact.
    pub async fn artifact(
        &self,
        who: &Principal,
        run: &StreamId,
        id: &str,
    ) -> Result<ArtifactBytes, ApiError> {
        let run = self.run_for(who, Action::ReadArtifact, run).await?;
        let found = of(&run)
            .iter()
            .find(|(_, artifact)| artifact.artifact_id == id);
        let (_, artifact) = found.ok_or(ApiError::NotFound(Thing::Artifact))?;
        Ok(ArtifactBytes {
            artifact: artifact.clone(),
            store: self.door().store().clone(),
            tenant: run.header.tenant().clone(),
        })
    }
}

fn of(run: &Run) -> &[(NodeId, Artifact)] {
    run.facts().map_or(&[], |facts| &facts.artifacts)
}
