//! A node's artifact in lists. The protocol has no list of artifacts; the names are those of
//! `artifact.created`.

use kernel::ids::{NodeId, StreamId};
use kernel::run::Artifact;
use serde_json::Value;

use super::fields::Fields;

/// An artifact of a run and the address of its bytes.
pub fn artifact(run: &StreamId, node: &NodeId, artifact: &Artifact) -> Value {
    let id = &artifact.artifact_id;
    Fields::new()
        .with("artifactId", id)
        .with("artifactType", &artifact.artifact_type)
        .maybe_text(
            "nodeId",
            Some(node).filter(|node| !node.as_str().is_empty()),
        )
        .with("mediaType", &artifact.media_type)
        .with("size", artifact.size)
        .text("sha256", artifact.digest)
        .with("url", format!("/v1/runs/{run}/artifacts/{id}"))
        .build()
}
