//! Nodes that failed because their host lacked something (a provider, a secret): another host may
//! have it.

use kernel::ids::StreamId;
use kernel::run::{Capacity, Command, Envelope, RunStatus};
use kernel::stream::StreamKind;
use serde_json::json;
use store::{ListQuery, StoreError};

use super::Engine;
use super::maintenance::Rows;
use crate::door::{Door, DoorError};

/// The statuses of runs that may have such a node.
const OPEN: [RunStatus; 4] = [
    RunStatus::WaitingInput,
    RunStatus::WaitingApproval,
    RunStatus::WaitingExternal,
    RunStatus::Running,
];

impl Engine {
    /// Begins another attempt of every node of a run, and of its child runs, that failed because
    /// its host lacked something.
    ///
    /// # Errors
    /// The store's; a lost race is not one.
    pub async fn retry_wants(&self, root: &StreamId, by: &str) -> Result<(), StoreError> {
        let mut todo = vec![root.clone()];
        while let Some(stream) = todo.pop() {
            let run = match self.door().load(&stream).await {
                Ok(run) => run,
                // A child whose creation is still in the outbox.
                Err(StoreError::Missing) if stream != *root => continue,
                Err(error) => return Err(error),
            };
            let children = run.facts().into_iter().flat_map(|facts| &facts.children);
            todo.extend(children.map(|(id, _)| id.clone()));
            retry(self.door(), &run, by).await?;
        }
        Ok(())
    }
}

/// As [`retry`], once for every run of the store: this engine may have what another one lacked.
pub(super) async fn retry_all(engine: Engine) {
    if let Err(error) = retry_each(&engine).await {
        tracing::warn!(%error, "runs that wait for a provider or a secret were not tried again");
    }
}

async fn retry_each(engine: &Engine) -> Result<(), StoreError> {
    let mut rows = Rows::new(ListQuery {
        kind: Some(StreamKind::Run),
        statuses: OPEN.map(|status| status.to_string()).into(),
        ..ListQuery::default()
    });
    while let Some(page) = rows.next(engine).await? {
        for row in page {
            if row.index.queue != engine.inner.options.queue {
                continue;
            }
            match engine.door().load(&row.stream).await {
                Ok(run) => retry(engine.door(), &run, "engine").await?,
                Err(StoreError::Missing | StoreError::Corrupt(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

async fn retry(door: &Door, run: &kernel::run::Run, by: &str) -> Result<(), StoreError> {
    let open = run.facts().into_iter().flat_map(|facts| &facts.interrupts);
    for question in open.filter(|question| question.is_for_want()) {
        let command = Command::Resolve {
            interrupt: question.id.clone(),
            value: json!({ "action": "retry" }),
            by: Some(by.to_owned()),
            capacity: Capacity::default(),
        };
        let envelope = Envelope::from(command);
        match door.transact(&run.header.stream, &envelope).await {
            // A rejection means that another caller has answered.
            Ok(_) | Err(DoorError::Rejected(_) | DoorError::KeyTaken { .. }) => {}
            Err(DoorError::Store(error)) => return Err(error),
        }
    }
    Ok(())
}
