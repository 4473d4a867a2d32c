//! The nodes of a workflow during a replay of a recorded run: some are answered from its log, the
//! others are executed.
//!
//! An attempt is found by run, node, visit and number, and answered only if its inputs equal those
//! of the recording. Pure computation is always repeated, for any choice of sources.

use std::sync::Arc;

use async_trait::async_trait;
use kernel::ids::{AttemptKey, StreamId};
use kernel::problem::Problem;
use kernel::run::{NodeError, Outcome};
use parking_lot::Mutex;
use runtime::nodes::{Given, NodeContext, Past, Ports, Registry, Repeat, Started, WorkNode};
use serde_json::Value;

use crate::attempts::Attempts;
use crate::call::Kind;
use crate::replayer::{Divergence, Sources};

/// The error code of an attempt that the recording does not have.
pub const LEFT: &str = "replay_left_recording";

/// A report on a replayed run.
#[derive(Debug, Default)]
pub struct RerunReport {
    /// Attempts of model nodes that were executed.
    pub live_models: u64,
    /// Attempts of other nodes with effects that were executed.
    pub live_tools: u64,
    /// The point where it left the recording.
    pub divergence: Option<Divergence>,
}

/// The nodes of an engine for replaying a run.
pub fn again(
    nodes: &Registry,
    recorded: Arc<Attempts>,
    sources: Sources,
    told: &Arc<Mutex<RerunReport>>,
) -> Registry {
    Registry::from_nodes(nodes.nodes().map(|node| {
        let again = Again {
            kind: kind_of(node.type_id()),
            node: node.clone(),
            recorded: recorded.clone(),
            sources,
            told: told.clone(),
        };
        Arc::new(again) as Arc<dyn WorkNode>
    }))
}

/// The kind of a node in a replay. Nodes that call models, and those that hand work to an agent,
/// are models; every other one is a tool.
fn kind_of(type_id: &str) -> Kind {
    let is_model = type_id.starts_with("core.ai.")
        || matches!(
            type_id,
            "runwright.skill" | "runwright.command" | "runwright.agent"
        );
    if is_model { Kind::Model } else { Kind::Tool }
}

struct Again {
    node: Arc<dyn WorkNode>,
    kind: Kind,
    recorded: Arc<Attempts>,
    sources: Sources,
    told: Arc<Mutex<RerunReport>>,
}

impl Again {
    fn is_served(&self) -> bool {
        self.sources.has(self.kind)
    }

    async fn serve(&self, started: &Started, cx: &NodeContext) -> Outcome {
        let asked = (started.run(), started.attempt(), started.inputs());
        let (reports, outcome) = match self.recorded.answer(asked, self.node.type_id()) {
            Ok(answer) => answer,
            Err(divergence) => {
                let message = divergence.message.clone();
                self.told.lock().divergence.get_or_insert(*divergence);
                return Outcome::failed(NodeError::new(LEFT, message).fatal());
            }
        };
        for report in reports {
            if cx.output.report(report.clone()).await.is_err() {
                return Outcome::Stopped;
            }
        }
        outcome.clone()
    }
}

#[async_trait]
impl WorkNode for Again {
    fn type_id(&self) -> &'static str {
        self.node.type_id()
    }

    fn summary(&self) -> &'static str {
        self.node.summary()
    }

    fn repeat(&self, config: &Value) -> Repeat {
        if self.is_served() {
            Repeat::Repeatable
        } else {
            self.node.repeat(config)
        }
    }

    fn config_schema(&self) -> Value {
        self.node.config_schema()
    }

    fn check(&self, config: &Value) -> Vec<Problem> {
        self.node.check(config)
    }

    fn has_result(&self, ports: &Ports, run: &StreamId, key: &AttemptKey) -> bool {
        !self.is_served() && self.node.has_result(ports, run, key)
    }

    fn remembers_calls(&self) -> bool {
        !self.is_served() && self.node.remembers_calls()
    }

    fn goes_on(&self, past: &Past<'_>) -> bool {
        !self.is_served() && self.node.goes_on(past)
    }

    fn leaves_results(&self) -> bool {
        self.node.leaves_results()
    }

    fn spends(&self) -> &'static [&'static str] {
        self.node.spends()
    }

    fn compute(&self, given: &Given<'_>) -> Option<Outcome> {
        self.node.compute(given)
    }

    async fn run(&self, started: Started, cx: NodeContext) -> Outcome {
        let computed = self.node.compute(&Given {
            config: started.config(),
            inputs: started.inputs(),
            key: started.key(),
        });
        if let Some(outcome) = computed {
            return outcome;
        }
        if self.is_served() {
            return self.serve(&started, &cx).await;
        }
        {
            let mut told = self.told.lock();
            match self.kind {
                Kind::Model => told.live_models += 1,
                Kind::Tool | Kind::Protocol => told.live_tools += 1,
            }
        }
        self.node.run(started, cx).await
    }
}
