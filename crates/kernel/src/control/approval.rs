//! `core.approvalGate`: waits until people accept or reject.
//!
//! The gate is left by port `accept`, `reject` or `refine`; an edge without a port belongs to
//! `accept`. Without an edge from `reject` a rejection fails the node with `interrupt_rejected`;
//! without one from `refine` the gate asks again. Outputs: `value` (the answer), `action`,
//! `decidedBy`, `artifactData`, `feedback`, `refineFeedback`, `comment`.
//!
//! If several people must accept, each votes once. Under `single-veto` the first rejection decides,
//! under `majority` the one with which rejections reach `required / 2 + 1`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::answer::{self, invalid};
use super::{
    Began, ConfigProblems, Context, ControlNode, Expiry, Given, PortSensitivity, Reply, Spec,
    Unrouted, Wait, interrupt, misconfigured, owned, sensitivity_of_gate, setting,
    with_resume_schema,
};
use crate::definition::config_keys::{
    COUNT, LIST, PROFILE, RESUME_SCHEMA, TEXT, TIMEOUT_MS, Takes,
};
use crate::definition::{Node, Plan, PlanNode};
use crate::ids::NodeId;
use crate::run::InterruptKind;
use crate::run::capacity::Answerer;
use crate::run::event::{ApprovalAction, RunEvent};
use crate::run::rejection::Rejection;
use crate::run::state::OpenInterrupt;

/// The node kind.
pub(crate) struct ApprovalGate;

const SPEC: Spec = Spec {
    type_id: "core.approvalGate",
    noun: "a gate",
    summary: "Waits for people to accept or reject.",
    config_keys: &[
        key!("title": TEXT, "The question in one line; default: the node's name."),
        key!("description": TEXT, "The full question."),
        key!("artifactId": TEXT, "The id of the artifact to approve; default: the node's id."),
        key!("artifactType": TEXT, "The kind of the artifact."),
        key!("artifactData": Takes::Anything, "The artifact."),
        key!("actions": LIST, "The allowed answers: accept, reject, refine, edit-accept, ask."),
        key!("requiredApprovals": COUNT, "The number of people who must accept; default: 1."),
        key!("rejectionPolicy": Takes::Words(&["single-veto", "majority"]),
            "Whether one rejection or the majority decides."),
        key!("approversList": LIST, "The people who may answer; default: everyone with access."),
        key!("approverGroupRefs": LIST, "Groups whose members may answer."),
        key!("approverRoleRefs": LIST, "Roles whose holders may answer."),
        key!("audience": Takes::Anything, "The people to ask, for display."),
        TIMEOUT_MS,
        key!("timeoutAction": Takes::Words(&["fail", "accept", "reject"]),
            "The result of an expired question; default: fail."),
        RESUME_SCHEMA,
        key!("key": TEXT, "The key of an answer; default: the node's id."),
        PROFILE,
    ],
    ports: &PORTS,
    default_port: Some("accept"),
    ..Spec::DEFAULT
};

impl ControlNode for ApprovalGate {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn check_config(&self, node: &Node) -> ConfigProblems {
        with_resume_schema(check_config(&node.config), &node.config)
    }

    fn outputs(&self, _: &Value) -> Option<Vec<String>> {
        Some(owned(&OUTPUTS))
    }

    fn wait(&self, config: &Value) -> Option<Wait> {
        Some(Wait::from_config(config, "timeoutMs"))
    }

    fn sensitivity(&self, _: &Plan, _: &PlanNode, port: &str) -> PortSensitivity {
        sensitivity_of_gate(port)
    }

    fn begin(&self, cx: &Context<'_>) -> Began {
        let data = match data(cx) {
            Ok(data) => data,
            Err(what) => return misconfigured(cx, what),
        };
        if let Err(what) = on_timeout(&cx.node.config) {
            return misconfigured(cx, format_args!("config.timeoutAction {what}"));
        }
        interrupt::ask(cx, InterruptKind::Approval, Value::Object(data))
    }

    fn announcement(&self, open: &OpenInterrupt, node: &NodeId, visit: u32) -> Option<RunEvent> {
        let terms = Terms::new(&open.data);
        let approvers = terms.approvers.into_iter();
        Some(RunEvent::ApprovalRequested {
            interrupt_id: open.id.clone(),
            node_id: node.clone(),
            visit,
            artifact_id: terms.artifact_id.to_owned(),
            artifact_type: terms.artifact_type.to_owned(),
            title: terms.title.to_owned(),
            actions: terms.actions,
            approvers_list: approvers.map(str::to_owned).collect(),
            required_approvals: terms.required,
        })
    }

    fn judge(&self, given: &Given<'_>) -> Result<Reply, Rejection> {
        judge(given)
    }

    fn unrouted(&self, answer: &Answer) -> Unrouted {
        match answer.action {
            ApprovalAction::Reject => Unrouted::Fails("the approval was refused"),
            ApprovalAction::Refine => Unrouted::AsksAgain,
            _ => Unrouted::Completes,
        }
    }

    fn expiry(&self, config: &Value) -> Expiry {
        match on_timeout(config) {
            Ok(Some(action)) => Expiry::Decides {
                action,
                value: json!({ "action": action, "reason": "timeout" }),
            },
            _ => Expiry::Undecided,
        }
    }
}

/// The output ports of a gate.
pub(crate) const PORTS: [&str; 3] = ["accept", "reject", "refine"];

/// The decision that the timeout of a gate counts as; `None` without one.
fn on_timeout(config: &Value) -> Result<Option<ApprovalAction>, &'static str> {
    match config.get("timeoutAction") {
        None | Some(Value::Null) => Ok(None),
        Some(word) => match word.as_str() {
            Some("fail") => Ok(None),
            Some("accept") => Ok(Some(ApprovalAction::Accept)),
            Some("reject") => Ok(Some(ApprovalAction::Reject)),
            _ => Err("must be fail, accept or reject"),
        },
    }
}

/// The question, in the protocol's form. The answer is judged by it, not by the config, because it
/// is recorded and shown.
fn data(cx: &Context<'_>) -> Result<Map<String, Value>, String> {
    let text = |key: &str| {
        setting(cx, key)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    let id = cx.node.id.as_str();
    let name = match cx.node.name.trim() {
        "" => id,
        name => name,
    };
    let mut data = Map::from_iter([
        (
            "artifactId".to_owned(),
            json!(text("artifactId").unwrap_or(id)),
        ),
        (
            "artifactType".to_owned(),
            json!(text("artifactType").unwrap_or("approval")),
        ),
        ("title".to_owned(), json!(text("title").unwrap_or(name))),
        (
            "actions".to_owned(),
            json!(actions(setting(cx, "actions"))?),
        ),
    ]);
    match setting(cx, "requiredApprovals") {
        None | Some(Value::Null) => {}
        Some(n)
            if n.as_u64()
                .is_some_and(|n| (1..=u64::from(MAX_APPROVALS)).contains(&n)) =>
        {
            data.insert("requiredApprovals".into(), n.clone());
        }
        Some(_) => {
            return Err(format!(
                "requiredApprovals must be a number from 1 to {MAX_APPROVALS}"
            ));
        }
    }
    match setting(cx, "rejectionPolicy").map(Value::as_str) {
        None => {}
        Some(Some(policy @ ("single-veto" | "majority"))) => {
            data.insert("rejectionPolicy".into(), json!(policy));
        }
        Some(_) => return Err("rejectionPolicy must be single-veto or majority".into()),
    }
    for key in ["approversList", "approverGroupRefs", "approverRoleRefs"] {
        match setting(cx, key) {
            None | Some(Value::Null) => {}
            Some(Value::Array(names)) if names.iter().all(Value::is_string) => {
                data.insert(key.into(), json!(names));
            }
            Some(_) => return Err(format!("{key} must be a list of names")),
        }
    }
    if let Some(description) = text("description") {
        data.insert("description".into(), json!(description));
    }
    for key in ["artifactData", "audience"] {
        if let Some(value) = setting(cx, key) {
            data.insert(key.into(), value.clone());
        }
    }
    Ok(data)
}

/// Maximum number of required accepts of one gate.
const MAX_APPROVALS: u32 = 1_000;

/// The actions that a config allows.
fn actions(configured: Option<&Value>) -> Result<Vec<ApprovalAction>, String> {
    let wrong =
        || "actions must be a list of accept, reject, refine, edit-accept or ask".to_owned();
    let words = match configured {
        None | Some(Value::Null) => {
            return Ok(vec![ApprovalAction::Accept, ApprovalAction::Reject]);
        }
        Some(Value::Array(words)) if !words.is_empty() => words,
        Some(_) => return Err(wrong()),
    };
    let mut actions = Vec::new();
    for word in words {
        let action = action(word.as_str().unwrap_or_default()).ok_or_else(wrong)?;
        if !actions.contains(&action) {
            actions.push(action);
        }
    }
    Ok(actions)
}

fn action(word: &str) -> Option<ApprovalAction> {
    Some(match word {
        "accept" => ApprovalAction::Accept,
        "reject" => ApprovalAction::Reject,
        "refine" => ApprovalAction::Refine,
        "edit-accept" => ApprovalAction::EditAccept,
        "ask" => ApprovalAction::Ask,
        _ => return None,
    })
}

/// Faults in the config of a gate, by its key.
pub(crate) fn check_config(config: &Value) -> ConfigProblems {
    let mut problems = Vec::new();
    if let Err(what) = actions(config.get("actions")) {
        problems.push(("actions", what));
    }
    if let Err(what) = on_timeout(config) {
        problems.push(("timeoutAction", what.to_owned()));
    }
    let list = |key: &str| config.get(key).and_then(Value::as_array).map(Vec::len);
    let is_closed = ["approverGroupRefs", "approverRoleRefs"]
        .iter()
        .all(|key| list(key).unwrap_or(0) == 0);
    let required = config.get("requiredApprovals").and_then(Value::as_u64);
    if let (true, Some(all @ 1..), Some(required)) = (is_closed, list("approversList"), required)
        && required > all as u64
    {
        let what = format!("needs more approvals than `approversList` has members ({all})");
        problems.push(("requiredApprovals", what));
    }
    for key in ["approversList", "approverGroupRefs", "approverRoleRefs"] {
        let list = config.get(key).and_then(Value::as_array);
        if list.is_some_and(|list| !list.iter().all(Value::is_string)) {
            problems.push((key, "must be a list of texts".to_owned()));
        }
    }
    problems
}

/// The terms of the question that an answer is judged by.
#[derive(Debug)]
pub(crate) struct Terms<'a> {
    pub(crate) artifact_id: &'a str,
    pub(crate) artifact_type: &'a str,
    pub(crate) title: &'a str,
    pub(crate) actions: Vec<ApprovalAction>,
    pub(crate) approvers: Vec<&'a str>,
    pub(crate) required: u32,
    groups: Vec<&'a str>,
    roles: Vec<&'a str>,
    majority: bool,
}

impl<'a> Terms<'a> {
    /// Parses the data of a question.
    pub(crate) fn new(data: &'a Value) -> Self {
        let text = |key: &str| data.get(key).and_then(Value::as_str).unwrap_or_default();
        let list = |key: &str| {
            let items = data.get(key).and_then(Value::as_array);
            items.into_iter().flatten().filter_map(Value::as_str)
        };
        Self {
            artifact_id: text("artifactId"),
            artifact_type: text("artifactType"),
            title: text("title"),
            actions: list("actions").filter_map(action).collect(),
            approvers: list("approversList").collect(),
            groups: list("approverGroupRefs").collect(),
            roles: list("approverRoleRefs").collect(),
            required: data
                .get("requiredApprovals")
                .and_then(Value::as_u64)
                .and_then(|n| u32::try_from(n).ok())
                .unwrap_or(1),
            majority: text("rejectionPolicy") == "majority",
        }
    }

    /// Whether a person may decide: by name, by group or by role. If none of these is listed,
    /// everyone may decide who may answer interrupts of the run. A group must be the answering
    /// person's own, because the groups of a represented person are unknown.
    fn may_decide(&self, name: Option<&str>, who: Answerer<'_>) -> bool {
        let is_open = self.approvers.is_empty() && self.groups.is_empty() && self.roles.is_empty();
        let speaks_for_itself = who.capacity.speaks_for.is_none();
        let has = |refs: &[&str], of: &BTreeSet<String>| {
            speaks_for_itself && refs.iter().any(|word| of.contains(*word))
        };
        is_open
            || name.is_some_and(|name| self.approvers.contains(&name))
            || has(&self.groups, &who.capacity.groups)
            || has(&self.roles, &who.capacity.roles)
    }

    /// Number of rejections that reject the gate.
    fn rejections(&self) -> usize {
        if self.majority {
            self.required as usize / 2 + 1
        } else {
            1
        }
    }
}

/// A valid answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) action: ApprovalAction,
    pub(crate) by: Option<String>,
    pub(crate) comment: Option<String>,
    pub(crate) feedback: Option<String>,
    pub(crate) refine_feedback: Option<Value>,
    pub(crate) edited: Option<Value>,
}

impl Answer {
    /// The answer of a gate whose time has passed.
    pub(crate) fn timed_out() -> Self {
        Self {
            action: ApprovalAction::Timeout,
            by: None,
            comment: None,
            feedback: None,
            refine_feedback: None,
            edited: None,
        }
    }
}

/// Judges an answer by the question and the earlier votes.
fn judge(given: &Given<'_>) -> Result<Reply, Rejection> {
    answer::check(given)?;
    let (open, who) = (given.open, given.who);
    let terms = Terms::new(&open.data);
    let mut answer = read(&terms, given.value, who)?;
    if !terms.may_decide(answer.by.as_deref(), who) {
        return Err(Rejection::NotAnApprover);
    }
    let action = match answer.action {
        ApprovalAction::Ask => return Ok(Reply::Asked),
        ApprovalAction::Accept | ApprovalAction::EditAccept => ApprovalAction::Accept,
        other => other,
    };
    if terms.required <= 1 || action == ApprovalAction::Refine {
        return Ok(Reply::Decided(answer));
    }
    let Some(voter) = &answer.by else {
        return Err(invalid(
            "several people decide here; say who votes, in `voter` or `decidedBy`",
        ));
    };
    if let Some(before) = open.votes.iter().find(|vote| vote.by == *voter) {
        return Err(if before.action == action {
            Rejection::Duplicate
        } else {
            Rejection::AlreadyVoted
        });
    }
    let with_this = 1 + open
        .votes
        .iter()
        .filter(|vote| vote.action == action)
        .count();
    let needed = match action {
        ApprovalAction::Reject => terms.rejections(),
        _ => terms.required as usize,
    };
    if with_this < needed {
        return Ok(Reply::Voted(answer));
    }
    if action == ApprovalAction::Accept && answer.edited.is_none() {
        // The last edit of those who accepted counts.
        let edits = open.votes.iter().filter(|vote| vote.action == action);
        answer.edited = edits.filter_map(|vote| vote.edited.clone()).next_back();
    }
    Ok(Reply::Decided(answer))
}

/// Parses an answer. A name known to the engine overrides the name in the answer.
fn read(terms: &Terms<'_>, value: &Value, who: Answerer<'_>) -> Result<Answer, Rejection> {
    let fields = value
        .as_object()
        .ok_or_else(|| invalid("it must be an object with an `action`"))?;
    let feedback = answer::text(fields, "feedback")?;
    let (action, refine_feedback) = match fields.get("action") {
        Some(word) => {
            let action = word
                .as_str()
                .and_then(action)
                .unwrap_or(ApprovalAction::Timeout);
            (
                action,
                fields
                    .get("refineFeedback")
                    .filter(|value| !value.is_null())
                    .cloned(),
            )
        }
        None => legacy(terms, fields, feedback.as_deref())?,
    };
    if !terms.actions.contains(&action) {
        let allowed: Vec<String> = terms
            .actions
            .iter()
            .map(|action| json!(action).to_string())
            .collect();
        return Err(invalid(format!(
            "its action must be one of {}",
            allowed.join(", ")
        )));
    }
    if let Some(feedback) = &refine_feedback {
        check_refine_feedback(feedback)?;
    } else if action == ApprovalAction::Refine {
        return Err(invalid("refine needs `refineFeedback` with its `scope`"));
    }
    let edited = fields
        .get("editedArtifactData")
        .filter(|value| !value.is_null());
    if action == ApprovalAction::EditAccept && edited.is_none() {
        return Err(invalid("edit-accept needs `editedArtifactData`"));
    }
    let claimed = match answer::text(fields, "voter")? {
        Some(voter) => Some(voter),
        None => answer::text(fields, "decidedBy")?,
    };
    Ok(Answer {
        action,
        by: who.name().map(str::to_owned).or(claimed),
        comment: answer::text(fields, "comment")?,
        feedback,
        refine_feedback,
        edited: edited
            .filter(|_| action == ApprovalAction::EditAccept)
            .cloned(),
    })
}

/// The form of answers from clients that predate the five actions.
fn legacy(
    terms: &Terms<'_>,
    fields: &Map<String, Value>,
    feedback: Option<&str>,
) -> Result<(ApprovalAction, Option<Value>), Rejection> {
    let may_refine = terms.actions.contains(&ApprovalAction::Refine);
    match (fields.get("decision").and_then(Value::as_str), feedback) {
        (Some("approved"), _) => Ok((ApprovalAction::Accept, None)),
        (Some("rejected"), Some(text)) if may_refine => {
            let feedback = json!({ "scope": "whole", "text": text });
            Ok((ApprovalAction::Refine, Some(feedback)))
        }
        (Some("rejected"), _) => Ok((ApprovalAction::Reject, None)),
        _ => Err(invalid("it must have an `action`")),
    }
}

fn check_refine_feedback(feedback: &Value) -> Result<(), Rejection> {
    let fields = feedback
        .as_object()
        .ok_or_else(|| invalid("`refineFeedback` must be an object"))?;
    if !matches!(
        answer::text(fields, "scope")?.as_deref(),
        Some("whole" | "section" | "items")
    ) {
        return Err(invalid(
            "`refineFeedback.scope` must be whole, section or items",
        ));
    }
    for key in ["sectionPath", "text"] {
        if fields.get(key).is_some_and(|value| !value.is_string()) {
            return Err(invalid(format!("`refineFeedback.{key}` must be a text")));
        }
    }
    for key in ["itemIds", "tags"] {
        let fits = |value: &Value| {
            let items = value.as_array();
            items.is_some_and(|items| items.iter().all(Value::is_string))
        };
        if fields.get(key).is_some_and(|value| !fits(value)) {
            return Err(invalid(format!(
                "`refineFeedback.{key}` must be a list of texts"
            )));
        }
    }
    Ok(())
}

/// The names of the outputs of a gate.
const OUTPUTS: [&str; 7] = [
    "value",
    "action",
    "artifactData",
    "refineFeedback",
    "decidedBy",
    "comment",
    "feedback",
];

/// The outputs of a decided gate.
pub(crate) fn outputs(answer: &Answer, value: Value, data: &Value) -> Map<String, Value> {
    let mut outputs = Map::from_iter([
        ("value".to_owned(), value),
        ("action".to_owned(), json!(answer.action)),
    ]);
    let artifact = answer.edited.as_ref().or_else(|| data.get("artifactData"));
    let more = [
        ("artifactData", artifact.cloned()),
        ("refineFeedback", answer.refine_feedback.clone()),
        ("decidedBy", answer.by.as_ref().map(|text| json!(text))),
        ("comment", answer.comment.as_ref().map(|text| json!(text))),
        ("feedback", answer.feedback.as_ref().map(|text| json!(text))),
    ];
    for (key, value) in more {
        if let Some(value) = value {
            outputs.insert(key.to_owned(), value);
        }
    }
    outputs
}

/// The output port for an action.
pub(crate) fn port(action: ApprovalAction) -> &'static str {
    match action {
        ApprovalAction::Reject => "reject",
        ApprovalAction::Refine => "refine",
        _ => "accept",
    }
}
