//! Calls of tools as the log has them: said before they are made, and said again when they are
//! over.

use kernel::run::budget::{Amounts, TOOL_CALLS};
use kernel::run::report::{ToolCalled, ToolReturned, ToolStatus, ToolTransport};
use kernel::run::{NodeError, Report};
use serde_json::{Map, Value};

use super::{HoldLost, NodeContext, NotReserved, Started};

/// Which call of an attempt this is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nth {
    /// Calls of this life so far, with this one.
    pub call: u32,
    /// Answers of the attempt that wanted calls, with the one that wants this.
    pub round: u32,
}

/// A call that the log knows of.
#[derive(Clone, Debug)]
pub(super) struct Called(ToolCalled);

/// Why a call that was said is not made.
pub(super) enum NotMade {
    /// Another process has the run.
    HoldLost,
    /// The run may make no more calls.
    Exhausted(NodeError),
}

impl From<HoldLost> for NotMade {
    fn from(_: HoldLost) -> Self {
        Self::HoldLost
    }
}

impl Called {
    /// Says that a tool is about to be called. `nth` tells the calls of an attempt apart, and says
    /// in which round of them this is.
    pub(super) async fn begin(
        started: &Started,
        cx: &NodeContext,
        nth: Option<Nth>,
        tool_name: String,
        transport: ToolTransport,
        arguments: &Map<String, Value>,
    ) -> Result<Self, HoldLost> {
        let attempt = started.attempt();
        let call_id = match nth {
            None => format!("{}.{}", started.key(), started.restarts()),
            Some(Nth { call, .. }) => format!("{}.{}.{call}", started.key(), started.restarts()),
        };
        let call = ToolCalled {
            node_id: attempt.node.clone(),
            visit: attempt.visit,
            attempt: attempt.attempt,
            // The decision says whose call it is, and the log's keeper what it hashes to.
            agent_id: String::new(),
            tool_name,
            call_id,
            inputs: Some(Value::Object(arguments.clone())),
            args_hash: String::new(),
            transport,
            round: nth.map_or(0, |nth| nth.round),
        };
        cx.output.report(Report::ToolCalled(call.clone())).await?;
        Ok(Self(call))
    }

    /// A call that an earlier holder said.
    pub(super) fn before(call: &ToolCalled) -> Self {
        Self(call.clone())
    }

    /// The tool, behind the name of its server.
    pub(super) fn tool_name(&self) -> &str {
        &self.0.tool_name
    }

    /// Sets a call aside from the run's budget, where it has one. A call that there is no budget
    /// for is over with that.
    pub(super) async fn reserve(&self, started: &Started, cx: &NodeContext) -> Result<(), NotMade> {
        if !started.is_budgeted() {
            return Ok(());
        }
        let one = Amounts::from([(TOOL_CALLS.to_owned(), 1)]);
        match cx.output.reserve(one, None).await {
            Ok(()) => Ok(()),
            Err(NotReserved::HoldLost) => Err(NotMade::HoldLost),
            Err(NotReserved::Exhausted(exhausted)) => {
                let error = exhausted.error();
                self.forbid(cx, error.clone()).await?;
                Err(NotMade::Exhausted(error))
            }
        }
    }

    /// Says that it is not made.
    pub(super) async fn forbid(&self, cx: &NodeContext, error: NodeError) -> Result<(), HoldLost> {
        self.over(cx, ToolStatus::Forbidden, None, Some(error), None)
            .await
    }

    /// Says how it went.
    pub(super) async fn over(
        &self,
        cx: &NodeContext,
        status: ToolStatus,
        outcome: Option<Value>,
        error: Option<NodeError>,
        duration_ms: Option<u64>,
    ) -> Result<(), HoldLost> {
        let of = &self.0;
        let report = Report::ToolReturned(ToolReturned {
            node_id: of.node_id.clone(),
            visit: of.visit,
            attempt: of.attempt,
            agent_id: String::new(),
            tool_name: of.tool_name.clone(),
            call_id: of.call_id.clone(),
            status,
            outcome,
            error,
            duration_ms,
        });
        cx.output.report(report).await
    }
}

/// Milliseconds since a moment.
pub(super) fn since(moment: tokio::time::Instant) -> u64 {
    u64::try_from(moment.elapsed().as_millis()).unwrap_or(u64::MAX)
}
