//! The registry of a tenant: which definition a workflow's name stands for.
//!
//! A stream of its own per tenant. Putting a workflow again appends; runs that exist keep the
//! definition their header names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::batch::{Batch, IndexRow, Record};
use crate::digest::Digest;
use crate::ids::{Seq, StreamId, TenantId, WorkflowId};
use crate::json;
use crate::stream::{DefinitionRef, FORMAT_VERSION, Owner, Policy, StreamHeader, StreamKind};
use crate::time::Timestamp;

/// An event of a registry stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its place in the log.
    pub seq: Seq,
    /// When it was decided.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub body: RegistryEvent,
}

/// What happened to a registry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum RegistryEvent {
    /// A workflow's name stands for this definition from now on.
    #[serde(rename = "runwright.workflow.put")]
    WorkflowPut {
        /// The definition.
        definition: DefinitionRef,
    },
}

/// The state of a registry.
#[derive(Clone, Debug)]
pub struct Registry {
    header: StreamHeader,
    next_seq: Seq,
    chain: Digest,
    at: Timestamp,
    workflows: BTreeMap<WorkflowId, DefinitionRef>,
}

/// The registry says so already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unchanged;

impl Registry {
    /// The stream of a tenant's registry. Derived, because there is one per tenant.
    pub fn stream(tenant: &TenantId) -> StreamId {
        let hex = Digest::of(format!("registry\0{tenant}").as_bytes()).to_string();
        StreamId::new(format!("registry-{}", &hex[..32]))
    }

    /// A registry nothing was put into yet.
    pub fn unborn(tenant: &TenantId, now: Timestamp) -> Self {
        Self::at_start(
            StreamHeader {
                stream: Self::stream(tenant),
                kind: StreamKind::Registry,
                owner: Owner::tenant(tenant.clone()),
                format: FORMAT_VERSION,
                created_at: now,
                definition: None,
                origin: None,
                parent: None,
                policy: Policy::default(),
                genesis: Digest([0; 32]),
                predecessor: None,
            }
            .seal_genesis(),
        )
    }

    /// The fold of no event.
    pub fn at_start(header: StreamHeader) -> Self {
        Self {
            next_seq: 0,
            chain: header.genesis,
            at: header.created_at,
            workflows: BTreeMap::new(),
            header,
        }
    }

    /// Folds a stored event. `None` when it is not an event of this stream's format or place.
    pub fn fold_content(&mut self, content: &[u8]) -> Option<()> {
        let event: Event = serde_json::from_slice(content).ok()?;
        (event.seq == self.next_seq).then_some(())?;
        self.fold(&event);
        self.chain = self.chain.chain(content);
        Some(())
    }

    fn fold(&mut self, event: &Event) {
        match &event.body {
            RegistryEvent::WorkflowPut { definition } => {
                self.workflows
                    .insert(definition.workflow.clone(), definition.clone());
            }
        }
        self.next_seq += 1;
        self.at = event.at;
    }

    /// The definition a name stands for.
    pub fn workflow(&self, id: &str) -> Option<&DefinitionRef> {
        self.workflows.get(id)
    }

    /// Every workflow, by name.
    pub fn workflows(&self) -> impl Iterator<Item = &DefinitionRef> {
        self.workflows.values()
    }

    /// The last link of the hash chain.
    pub fn chain(&self) -> Digest {
        self.chain
    }

    /// Decides to let a name stand for a definition.
    ///
    /// # Errors
    /// [`Unchanged`] where it does already.
    pub fn put(mut self, definition: DefinitionRef, now: Timestamp) -> Result<Batch, Unchanged> {
        if self.workflows.get(&definition.workflow) == Some(&definition) {
            return Err(Unchanged);
        }
        let header = (self.next_seq == 0).then(|| self.header.clone());
        let digest = definition.digest;
        let event = Event {
            seq: self.next_seq,
            at: now.max(self.at),
            body: RegistryEvent::WorkflowPut { definition },
        };
        self.fold(&event);
        let content = json::canonical(&event);
        let chain = self.chain.chain(&content);
        Ok(Batch {
            stream: self.header.stream.clone(),
            tenant: self.header.tenant().clone(),
            header,
            first_seq: event.seq,
            records: vec![Record { content, chain }],
            index: self.index(),
            timers: Vec::new(),
            keys: Vec::new(),
            outbox: Vec::new(),
            blobs: vec![digest],
        })
    }

    /// The index row of this state.
    pub fn index(&self) -> IndexRow {
        IndexRow {
            kind: StreamKind::Registry,
            workspace: None,
            subject: "registry".into(),
            status: "open".into(),
            settled: false,
            runnable: false,
            queue: self.header.policy.queue.clone(),
            priority: 0,
            concurrency_key: None,
            parent: None,
            created_at: self.header.created_at,
            updated_at: self.at,
            tags: Vec::new(),
            summary: json!({ "workflows": self.workflows.len() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(version: &str) -> DefinitionRef {
        DefinitionRef {
            workflow: "w".into(),
            version: version.into(),
            digest: Digest::of(version.as_bytes()),
        }
    }

    fn reload(batches: &[Batch]) -> Registry {
        let header = batches[0].header().expect("a first batch").clone();
        let mut registry = Registry::at_start(header);
        for record in batches.iter().flat_map(|batch| batch.records()) {
            registry
                .fold_content(&record.content)
                .expect("a registry event");
            assert_eq!(registry.chain(), record.chain);
        }
        registry
    }

    #[test]
    fn the_last_put_stands_and_putting_it_again_changes_nothing() {
        let first = Registry::unborn(&"t".into(), Timestamp(5));
        let first = first.put(definition("1"), Timestamp(6)).expect("new");
        let second = reload(std::slice::from_ref(&first));
        let second = second
            .put(definition("2"), Timestamp(7))
            .expect("another version");
        let registry = reload(&[first, second]);
        assert_eq!(registry.workflow("w"), Some(&definition("2")));
        assert_eq!(
            registry.put(definition("2"), Timestamp(8)).err(),
            Some(Unchanged)
        );
    }
}
