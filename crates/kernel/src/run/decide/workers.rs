//! Work nodes that run on workers: a request to the queue's coordinator is sent with the events,
//! and a withdrawal when the node no longer waits.

use serde_json::Value;

use super::Decision;
use crate::coordinator::{self, TaskCommand, TaskMessage, TaskTerms, WORKER_NODE, WorkerConfig};
use crate::definition::NodeIx;
use crate::ids::{AttemptId, RequestId};
use crate::run::rejection::Rejection;
use crate::run::state::NodeStatus;

impl Decision {
    /// Sends the work of a node of this type to the workers of its queue.
    pub(super) fn give_to_workers(&mut self, ix: NodeIx, signal: &str) {
        let node = self.run.plan.node(ix);
        let Some(config) = worker_config(&node.type_id, &node.config) else {
            return;
        };
        let attempt = self.attempt_of(ix);
        let inputs = self.facts().nodes[ix.index()].inputs.clone();
        let order = TaskCommand::Queue {
            request_id: self.request_of(&attempt),
            payload: Value::Object(inputs.unwrap_or_default()).to_string(),
            terms: Box::new(TaskTerms {
                run: self.run.header.stream.clone(),
                attempt,
                signal: signal.to_owned(),
                handing: config.handing,
            }),
        };
        self.tell_queue(config.queue, order);
    }

    /// Withdraws the task of a node that stops waiting.
    pub(super) fn withdraw_from_workers(&mut self, ix: NodeIx) {
        let node = self.run.plan.node(ix);
        let waits = matches!(
            self.facts().nodes[ix.index()].status,
            NodeStatus::Suspended { .. }
        );
        let Some(config) = worker_config(&node.type_id, &node.config).filter(|_| waits) else {
            return;
        };
        let request_id = self.request_of(&self.attempt_of(ix));
        self.tell_queue(config.queue, TaskCommand::Withdraw { request_id });
    }

    fn tell_queue(&mut self, queue: String, order: TaskCommand) {
        let (id, tenant) = (self.next_message(), self.run.header.tenant());
        let message = coordinator::message(tenant, id, TaskMessage { queue, order });
        self.outbox.push(message);
    }

    fn attempt_of(&self, ix: NodeIx) -> AttemptId {
        AttemptId {
            node: self.node_id(ix),
            visit: self.facts().nodes[ix.index()].visit,
            attempt: self.current_attempt(ix),
        }
    }

    fn request_of(&self, attempt: &AttemptId) -> RequestId {
        RequestId::new(attempt.key(&self.run.header.key_origin()))
    }

    /// The node of an attempt that a worker has.
    pub(super) fn with_a_worker(&self, attempt: &AttemptId) -> Result<NodeIx, Rejection> {
        let plan = &self.run.plan;
        let ix = plan.node_ix(attempt.node.as_str());
        ix.filter(|ix| {
            let node = &self.facts().nodes[ix.index()];
            let is_current = matches!(node.status, NodeStatus::Suspended { attempt: n, .. }
                if n == attempt.attempt && node.visit == attempt.visit);
            is_current && plan.node(*ix).type_id == WORKER_NODE
        })
        .ok_or(Rejection::StaleAttempt)
    }
}

fn worker_config(type_id: &str, config: &Value) -> Option<WorkerConfig> {
    (type_id == WORKER_NODE).then(|| WorkerConfig::from_config(config))?
}
