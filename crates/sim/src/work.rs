//! The one node of a world that has an effect outside; it records the effect.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kernel::run::event::OutputChannel;
use kernel::run::{NodeError, Outcome};
use runtime::nodes::{NodeContext, Repeat, Started, WorkNode};
use serde_json::{Map, Value, json};
use store::StoreClock;

use crate::clock::ProcessClock;
use crate::record::{Finish, ProcessId, Record};

/// Its type id.
pub(crate) const WORK: &str = "sim.work";

/// The node as seen by one process.
pub(crate) struct Work {
    pub(crate) process: ProcessId,
    pub(crate) clock: Arc<ProcessClock>,
    pub(crate) record: Record,
}

/// A running instance. Dropped before its end, it counts as killed with its process.
struct Running {
    instance: usize,
    record: Record,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.record.with(|seen| {
            let at = kernel::time::Timestamp(seen.now);
            seen.ended(at, self.instance, Finish::Killed);
        });
    }
}

impl Work {
    async fn attempt(&self, started: &Started, cx: &NodeContext, instance: usize) -> Finish {
        let number = |key: &str| started.config()[key].as_u64().unwrap_or(0);
        let wait = |key: &str| tokio::time::sleep(Duration::from_millis(number(key)));
        let work = async {
            for n in 0..number("chunks") {
                let text = format!("{instance} {n}");
                let sent = cx.output.chunk(OutputChannel::Text, text, false, None);
                if sent.await.is_err() {
                    return Finish::Stopped;
                }
            }
            wait("ms").await;
            if u64::from(started.attempt().attempt) < number("fails") {
                Finish::Failed
            } else {
                Finish::Completed
            }
        };
        tokio::select! {
            biased;
            () = cx.stop.cancelled() => {
                // Stopping takes time too.
                wait("stopMs").await;
                Finish::Stopped
            }
            finish = work => finish,
        }
    }
}

#[async_trait]
impl WorkNode for Work {
    fn type_id(&self) -> &'static str {
        WORK
    }

    fn summary(&self) -> &'static str {
        "Works for a while and accounts for it."
    }

    fn repeat(&self, config: &Value) -> Repeat {
        if config["once"] == true {
            Repeat::Once
        } else {
            Repeat::Repeatable
        }
    }

    fn config_schema(&self) -> Value {
        let number = json!({ "type": "integer", "minimum": 0 });
        json!({
            "type": "object",
            "properties": {
                "ms": number, "fails": number, "chunks": number, "stopMs": number,
                "once": { "type": "boolean" },
            },
            "additionalProperties": false,
        })
    }

    async fn run(&self, started: Started, cx: NodeContext) -> Outcome {
        let instance = self.record.with(|seen| {
            let (run, key) = (started.run(), started.key());
            seen.started(self.clock.now(), self.process, run, key)
        });
        let running = Running {
            instance,
            record: self.record.clone(),
        };
        let finish = self.attempt(&started, &cx, instance).await;
        let at = self.clock.now();
        running.record.with(|seen| seen.ended(at, instance, finish));
        match finish {
            Finish::Completed => {
                let outputs = Map::from_iter([("instance".to_owned(), json!(instance))]);
                Outcome::completed(outputs)
            }
            Finish::Failed => Outcome::failed(NodeError::new("sim_failed", "as it was told")),
            Finish::Stopped | Finish::Killed => Outcome::Stopped,
        }
    }
}
