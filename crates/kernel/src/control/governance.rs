//! `core.openwop.governance.approvalGate`: waits until a person with a role or a scope grants or
//! rejects (OpenWOP, interrupt profiles, and its RFCs 0051 and 0093).
//!
//! Input ports override the config, except for the fields that define who may decide.
//!
//! An answer has a `decision`: `granted`, `rejected`, or `overridden` with a `reason`; the actions
//! `accept` and `reject` are read as the first two. It must come from an authenticated person. The
//! first rejection decides. An override counts as one vote of the quorum, unless the config lets it
//! bypass the quorum; it is recorded in the audit trail either way.
//!
//! The gate is left by port `accept` or `reject`; an edge without a port belongs to `accept`. A
//! rejection without an edge asks again. After `timeoutSec` the gate counts as rejected. Without an
//! edge for the rejection the node then fails with `interrupt_rejected`, because asking again would
//! never end.

use serde_json::{Map, Value, json};

use super::approval::Answer;
use super::{
    Ask, Began, ConfigProblems, Context, ControlNode, Expiry, Given, PortSensitivity, Reply, Spec,
    Unrouted, Wait, answer, interrupt, misconfigured, sensitivity_of_gate, setting,
};
use crate::definition::config_keys::{COUNT, OBJECT, TEXT, Takes, YES_OR_NO};
use crate::definition::{Node, Plan, PlanNode};
use crate::limits::MAX_WAIT_MS;
use crate::run::InterruptKind;
use crate::run::capacity::Answerer;
use crate::run::event::ApprovalAction;
use crate::run::rejection::Rejection;

/// The node kind.
pub(crate) struct GovernanceGate;

const SPEC: Spec = Spec {
    type_id: "core.openwop.governance.approvalGate",
    noun: "a gate",
    summary: "Waits for people with a role or a scope to grant or reject.",
    config_keys: &[
        key!("requiredRole": TEXT, "The role that may decide."),
        key!("requiredScope": TEXT,
            "The scope that a credential needs to decide; with requiredRole both are needed."),
        key!("quorum": COUNT, "The number of people who must grant; default: 1."),
        key!("override": OBJECT,
            "requiredRole: the role that may decide alone, with a reason."),
        key!("overrideBypassesQuorum": YES_OR_NO,
            "Whether one override decides; default: it is one vote."),
        key!("timeoutSec": Takes::Seconds,
            "Seconds until the gate counts as rejected; default: never."),
        key!("title": TEXT, "The question in one line; default: the node's name."),
        key!("description": TEXT, "The full question."),
        key!("artifactId": TEXT, "The id of the artifact to approve; default: the node's id."),
        key!("artifactType": TEXT, "The kind of the artifact."),
        key!("artifactData": Takes::Anything, "The artifact."),
        key!("resumeSchema": Takes::Anything, "For display: the gate defines the form of its \
                                               answer."),
        key!("key": TEXT, "The key of an answer; default: the node's id."),
    ],
    ports: &PORTS,
    default_port: Some("accept"),
    is_governed: true,
    ..Spec::DEFAULT
};

impl ControlNode for GovernanceGate {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    /// Its `resumeSchema` is for people: the rules of an answer are the gate's own.
    fn check_config(&self, node: &Node) -> ConfigProblems {
        check_config(&node.config)
    }

    fn wait(&self, config: &Value) -> Option<Wait> {
        Some(match config.get("timeoutSec").and_then(Value::as_u64) {
            Some(seconds) => Wait::AtMost(seconds.saturating_mul(1_000)),
            None => Wait::from_config(config, "timeoutMs"),
        })
    }

    fn sensitivity(&self, _: &Plan, _: &PlanNode, port: &str) -> PortSensitivity {
        sensitivity_of_gate(port)
    }

    fn begin(&self, cx: &Context<'_>) -> Began {
        let config = &cx.node.config;
        if let Some((key, what)) = check_config(config).first() {
            return misconfigured(cx, format_args!("config.{key} {what}"));
        }
        let id = cx.node.id.as_str();
        let text = |key: &str, otherwise: &str| {
            let given = setting(cx, key).and_then(Value::as_str);
            let given = given.filter(|text| !text.is_empty());
            json!(given.unwrap_or(otherwise))
        };
        let name = match cx.node.name.trim() {
            "" => id,
            name => name,
        };
        let quorum = config.get("quorum").and_then(Value::as_u64);
        let mut data = Map::from_iter([
            ("gateId".to_owned(), json!(id)),
            ("artifactId".to_owned(), text("artifactId", id)),
            ("artifactType".to_owned(), text("artifactType", "approval")),
            ("title".to_owned(), text("title", name)),
            ("actions".to_owned(), json!(["accept", "reject"])),
        ]);
        if let Some(quorum) = quorum {
            data.insert("quorum".into(), json!(quorum));
            data.insert("requiredApprovals".into(), json!(quorum));
        }
        for key in ["requiredRole", "requiredScope", "overrideBypassesQuorum"] {
            data.extend(config.get(key).map(|value| (key.to_owned(), value.clone())));
        }
        if let Some(role) = config.get("override").and_then(|of| of.get("requiredRole")) {
            data.insert("override".into(), json!({ "requiredRole": role }));
        }
        for key in ["description", "artifactData"] {
            data.extend(setting(cx, key).map(|value| (key.to_owned(), value.clone())));
        }
        let seconds = config.get("timeoutSec").and_then(Value::as_u64);
        Began::Asks(Ask {
            kind: InterruptKind::Approval,
            key: interrupt::question_key(cx),
            data: Value::Object(data),
            resume_schema: None,
            timeout_ms: seconds.map(|seconds| seconds.saturating_mul(1_000).min(MAX_WAIT_MS)),
        })
    }

    fn judge(&self, given: &Given<'_>) -> Result<Reply, Rejection> {
        judge(given).map(Reply::Governed)
    }

    /// A rejection ends nothing by itself, except by timeout: asking again would never end.
    fn unrouted(&self, answer: &Answer) -> Unrouted {
        match (answer.action, &answer.by) {
            (ApprovalAction::Reject, None) => {
                Unrouted::Fails("nobody granted the approval in time")
            }
            (ApprovalAction::Reject, Some(_)) => Unrouted::AsksAgain,
            _ => Unrouted::Completes,
        }
    }

    fn expiry(&self, _: &Value) -> Expiry {
        Expiry::Decides {
            action: ApprovalAction::Reject,
            value: json!({ "decision": "rejected", "reason": "timeout" }),
        }
    }
}

/// The output ports of a gate.
pub(crate) const PORTS: [&str; 2] = ["accept", "reject"];
/// Maximum number of required grants.
const MAX_QUORUM: u64 = 1_000;

/// Faults in the config of a gate, by its key.
fn check_config(config: &Value) -> ConfigProblems {
    let mut problems = Vec::new();
    let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let given = |key: &str| config.get(key);
    for key in ["requiredRole", "requiredScope"] {
        if given(key).is_some_and(|value| !is_text(value)) {
            problems.push((key, "must be a text".into()));
        }
    }
    if given("requiredRole").is_none() && given("requiredScope").is_none() {
        let what = "is missing: the gate needs `requiredRole` or `requiredScope`";
        problems.push(("requiredRole", what.into()));
    }
    let is_count = |value: &Value| {
        value
            .as_u64()
            .is_some_and(|n| (1..=MAX_QUORUM).contains(&n))
    };
    if given("quorum").is_some_and(|value| !is_count(value)) {
        problems.push(("quorum", format!("must be a number from 1 to {MAX_QUORUM}")));
    }
    if let Some(given) = given("override") {
        if !given.get("requiredRole").is_some_and(is_text) {
            problems.push(("override", "must name its `requiredRole`".into()));
        }
        if given.get("audited") == Some(&json!(false)) {
            problems.push(("override", "is always audited".into()));
        }
    }
    if given("overrideBypassesQuorum").is_some_and(|value| !value.is_boolean()) {
        problems.push(("overrideBypassesQuorum", "must be true or false".into()));
    }
    if given("timeoutSec").is_some_and(|value| value.as_u64().is_none_or(|n| n == 0)) {
        problems.push((
            "timeoutSec",
            "must be a whole number of seconds from 1 on".into(),
        ));
    }
    problems
}

/// The terms of the question.
struct Terms<'a>(&'a Value);

impl<'a> Terms<'a> {
    fn text(&self, key: &str) -> Option<&'a str> {
        self.0.get(key).and_then(Value::as_str)
    }

    fn required(&self) -> usize {
        let required = self.0.get("requiredApprovals").and_then(Value::as_u64);
        required.map_or(1, |n| usize::try_from(n).unwrap_or(usize::MAX))
    }

    fn override_role(&self) -> Option<&'a str> {
        self.0.get("override")?.get("requiredRole")?.as_str()
    }

    fn bypasses(&self) -> bool {
        self.0.get("overrideBypassesQuorum") == Some(&json!(true))
    }

    /// Whether a person may decide. People who answer for others may not.
    fn may_decide(&self, decision: Decision, who: Answerer<'_>) -> bool {
        let capacity = who.capacity;
        let has = |role: &str| capacity.roles.contains(role);
        if capacity.speaks_for.is_some() {
            return false;
        }
        match decision {
            Decision::Overridden => self.override_role().is_some_and(has),
            Decision::Granted | Decision::Rejected => {
                let (role, scope) = (self.text("requiredRole"), self.text("requiredScope"));
                (role.is_some() || scope.is_some())
                    && role.is_none_or(has)
                    && scope.is_none_or(|scope| capacity.scopes.contains(scope))
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Granted,
    Rejected,
    Overridden,
}

/// The result of judging an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ruling {
    /// The answer in the form of all gates.
    pub(crate) answer: Answer,
    /// It overrides the regular deciders.
    pub(crate) overrides: bool,
    /// The gate waits for no other vote.
    pub(crate) decides: bool,
}

/// Judges an answer by the question, the person and the earlier votes.
fn judge(given: &Given<'_>) -> Result<Ruling, Rejection> {
    let (open, who) = (given.open, given.who);
    let Some(name) = who.by else {
        return Err(Rejection::AuthRequired);
    };
    let terms = Terms(&open.data);
    let (decision, reason) = read(given.value)?;
    if !terms.may_decide(decision, who) {
        return Err(Rejection::NotAnApprover);
    }
    let overrides = decision == Decision::Overridden;
    let action = match decision {
        Decision::Rejected => ApprovalAction::Reject,
        Decision::Granted | Decision::Overridden => ApprovalAction::Accept,
    };
    let ruling = |decides| Ruling {
        answer: Answer {
            action,
            by: Some(name.to_owned()),
            comment: reason.clone(),
            feedback: None,
            refine_feedback: None,
            edited: None,
        },
        overrides,
        decides,
    };
    if action == ApprovalAction::Reject || (overrides && terms.bypasses()) {
        return Ok(ruling(true));
    }
    if open.votes.iter().any(|vote| vote.by == name) {
        return Err(Rejection::Duplicate);
    }
    Ok(ruling(open.votes.len() + 1 >= terms.required()))
}

fn read(value: &Value) -> Result<(Decision, Option<String>), Rejection> {
    let malformed = |what: &str| Rejection::InvalidDecision { what: what.into() };
    let fields = value
        .as_object()
        .ok_or_else(|| malformed("it must be an object with a `decision`"))?;
    let word = |key: &str| {
        fields
            .get(key)
            .map(|word| word.as_str().unwrap_or_default())
    };
    let decision = match (word("decision"), word("action")) {
        (Some("granted"), _) | (None, Some("accept")) => Decision::Granted,
        (Some("rejected"), _) | (None, Some("reject")) => Decision::Rejected,
        (Some("overridden"), _) => Decision::Overridden,
        _ => {
            return Err(malformed(
                "its decision must be granted, rejected or overridden",
            ));
        }
    };
    let reason = ["reason", "comment", "feedback"]
        .iter()
        .find(|key| fields.contains_key(**key))
        .map(|key| answer::text(fields, key))
        .transpose()
        .map_err(|_| malformed("its reason must be a text"))?
        .flatten()
        .filter(|reason| !reason.trim().is_empty());
    if decision == Decision::Overridden && reason.is_none() {
        Err(malformed("an override needs a `reason`"))
    } else {
        Ok((decision, reason))
    }
}
