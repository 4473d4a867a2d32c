//! Reading artifacts.

use std::sync::Arc;

use kernel::ids::{NodeId, StreamId, TenantId};
use kernel::run::{Artifact, Run};
use store::{Store, StoreError};

use super::error::ResourceKind;
use super::{Api, ApiError};
use crate::access::{Action, Principal};

/// An artifact that can be read part by part.
#[derive(Clone)]
pub struct ArtifactBytes {
    /// Its description in the log.
    pub artifact: Artifact,
    kept: Kept,
}

/// Where its bytes are.
#[derive(Clone)]
enum Kept {
    /// In blobs.
    Blobs(Arc<dyn Store>, TenantId),
    /// In memory: the artifact was part of a document.
    Document(Vec<u8>),
}

impl ArtifactBytes {
    /// The number of parts.
    pub fn parts(&self) -> usize {
        match &self.kept {
            Kept::Blobs(..) => self.artifact.parts.len(),
            Kept::Document(_) => 1,
        }
    }

    /// The bytes of a part.
    ///
    /// # Errors
    /// The store's; `Corrupt` if the bytes do not match their digest.
    ///
    /// # Panics
    /// If `n` is out of range.
    pub async fn part(&self, n: usize) -> Result<Vec<u8>, StoreError> {
        match &self.kept {
            Kept::Blobs(store, tenant) => store.blob(tenant, &self.artifact.parts[n]).await,
            Kept::Document(bytes) => Ok(bytes.clone()),
        }
    }
}

impl Api {
    /// The artifacts of a run in order of creation, each with its node.
    ///
    /// # Errors
    /// As [`Api::version`].
    pub async fn artifacts(
        &self,
        who: &Principal,
        run: &StreamId,
    ) -> Result<Vec<(NodeId, Artifact)>, ApiError> {
        match self.run_for(who, Action::ReadArtifact, run).await {
            Ok(run) => Ok(of(&run).to_vec()),
            Err(ApiError::ReadOnly) => {
                let document = self.document_for(who, Action::ReadArtifact, run).await?;
                Ok(document.view().artifacts().collect())
            }
            Err(error) => Err(error),
        }
    }

    /// An artifact by its id.
    ///
    /// # Errors
    /// As [`Api::version`]; `NotFound` if the run has no such artifact, `Hidden` if its workflow
    /// declares the node's output sensitive.
    pub async fn artifact(
        &self,
        who: &Principal,
        run: &StreamId,
        id: &str,
    ) -> Result<ArtifactBytes, ApiError> {
        let none = || ApiError::NotFound(ResourceKind::Artifact);
        let run = match self.run_for(who, Action::ReadArtifact, run).await {
            Err(ApiError::ReadOnly) => {
                let document = self.document_for(who, Action::ReadArtifact, run).await?;
                let (artifact, bytes) = document.artifact(id).ok_or_else(none)?;
                let kept = Kept::Document(bytes);
                return Ok(ArtifactBytes { artifact, kept });
            }
            run => run?,
        };
        let mut artifacts = of(&run).iter();
        let found = artifacts.find(|(_, artifact)| artifact.artifact_id == id);
        let (node, artifact) = found.ok_or_else(none)?;
        if run.plan.hides_talk(node) {
            return Err(ApiError::Hidden);
        }
        let (store, tenant) = (self.door().store().clone(), run.header.tenant().clone());
        Ok(ArtifactBytes {
            artifact: artifact.clone(),
            kept: Kept::Blobs(store, tenant),
        })
    }
}

fn of(run: &Run) -> &[(NodeId, Artifact)] {
    run.facts().map_or(&[], |facts| &facts.artifacts)
}
