//! Records of tool calls: one before the call and one after it.

use std::collections::BTreeMap;

use kernel::digest::Digest;
use kernel::ids::EffectKey;
use kernel::json::canonical;
use kernel::run::budget::{Amounts, TOOL_CALLS};
use kernel::run::report::{ToolCalled, ToolReturned, ToolStatus, ToolTransport};
use kernel::run::{NodeError, Report};
use serde_json::{Map, Value};

use super::{LeaseLost, NodeContext, NotReserved, PastCall, Started};

/// The position of a call in an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nth {
    /// Calls of this life so far, including this one.
    pub call: u32,
    /// Answers of the attempt that requested calls, including this one's.
    pub round: u32,
}

/// A recorded call.
#[derive(Clone, Debug)]
pub(super) struct Called(ToolCalled);

/// Counts the calls of an attempt that have returned: an equal call after them is another one.
#[derive(Debug, Default)]
pub(super) struct Returned(BTreeMap<(String, String), u32>);

impl Returned {
    /// The calls that an earlier holder recorded.
    pub(super) fn from_past(past: &[PastCall]) -> Self {
        let mut returned = Self::default();
        for call in past {
            let status = call.returned.as_ref().map(|returned| returned.status);
            if status.is_some_and(|status| status != ToolStatus::Forbidden) {
                returned.count(&Called::before(&call.called));
            }
        }
        returned
    }

    /// Counts a call.
    pub(super) fn count(&mut self, Called(call): &Called) {
        let same = (call.tool_name.clone(), call.args_hash.clone());
        let times = self.0.entry(same).or_default();
        *times = times.saturating_add(1);
    }

    /// The key of the effect of a call that is about to be made.
    pub(super) fn effect(&self, started: &Started, Called(call): &Called) -> EffectKey {
        let same = (call.tool_name.clone(), call.args_hash.clone());
        let nth = self.0.get(&same).copied().unwrap_or_default();
        started
            .effect()
            .of_call(&call.tool_name, &call.args_hash, nth)
    }
}

/// Why a recorded call is not made.
pub(super) enum NotMade {
    /// Another process holds the run.
    LeaseLost,
    /// The run's budget for calls is exhausted.
    Exhausted(NodeError),
}

impl From<LeaseLost> for NotMade {
    fn from(_: LeaseLost) -> Self {
        Self::LeaseLost
    }
}

impl Called {
    /// Records that a tool is about to be called. `nth` distinguishes the calls of an attempt and
    /// gives the round of this one.
    pub(super) async fn begin(
        started: &Started,
        cx: &NodeContext,
        nth: Option<Nth>,
        tool_name: String,
        transport: ToolTransport,
        arguments: &Map<String, Value>,
    ) -> Result<Self, LeaseLost> {
        let attempt = started.attempt();
        let call_id = match nth {
            None => format!("{}.{}", started.key(), started.restarts()),
            Some(Nth { call, .. }) => format!("{}.{}.{call}", started.key(), started.restarts()),
        };
        let mut inputs = Value::Object(arguments.clone());
        cx.ports.secrets.redact(&mut inputs);
        let args_hash = Digest::compute(&canonical(&inputs)).to_string();
        let call = ToolCalled {
            node_id: attempt.node.clone(),
            visit: attempt.visit,
            attempt: attempt.attempt,
            // The kernel sets the agent.
            agent_id: String::new(),
            tool_name,
            call_id,
            inputs: Some(inputs),
            args_hash,
            transport,
            round: nth.map_or(0, |nth| nth.round),
        };
        cx.output.report(Report::ToolCalled(call.clone())).await?;
        Ok(Self(call))
    }

    /// A call that an earlier holder recorded.
    pub(super) fn before(call: &ToolCalled) -> Self {
        Self(call.clone())
    }

    /// The tool's name, prefixed with its server's.
    pub(super) fn tool_name(&self) -> &str {
        &self.0.tool_name
    }

    /// Reserves a call from the run's budget, if it has one. A call without budget ends with an
    /// error.
    pub(super) async fn reserve(&self, started: &Started, cx: &NodeContext) -> Result<(), NotMade> {
        if !started.is_budgeted() {
            return Ok(());
        }
        let one = Amounts::from([(TOOL_CALLS.to_owned(), 1)]);
        match cx.output.reserve(one, None).await {
            Ok(()) => Ok(()),
            Err(NotReserved::LeaseLost) => Err(NotMade::LeaseLost),
            Err(NotReserved::Exhausted(exhausted)) => {
                let error = exhausted.error();
                self.forbid(cx, error.clone()).await?;
                Err(NotMade::Exhausted(error))
            }
        }
    }

    /// Records that it is not made.
    pub(super) async fn forbid(&self, cx: &NodeContext, error: NodeError) -> Result<(), LeaseLost> {
        self.over(cx, ToolStatus::Forbidden, None, Some(error), None)
            .await
    }

    /// Records its result.
    pub(super) async fn over(
        &self,
        cx: &NodeContext,
        status: ToolStatus,
        outcome: Option<Value>,
        error: Option<NodeError>,
        duration_ms: Option<u64>,
    ) -> Result<(), LeaseLost> {
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

/// Milliseconds since `moment`.
pub(super) fn since(moment: tokio::time::Instant) -> u64 {
    u64::try_from(moment.elapsed().as_millis()).unwrap_or(u64::MAX)
}
