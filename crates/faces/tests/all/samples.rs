//! One event of every kind, with every optional field set, and a few with none.

use std::collections::BTreeMap;

use kernel::definition::Reducer;
use kernel::digest::Digest;
use kernel::ids::{AttemptId, StreamId};
use kernel::run::cause::Start;
use kernel::run::event::{
    ApprovalAction, BudgetScope, CapKind, ChainPhase, ChildStatus, DivergenceKind, Doubt,
    DrainPolicy, Ending, JoinOutcome, OutputChannel, SkipReason, Vote,
};
use kernel::run::report::{
    EnvelopeCoerced, EnvelopeFault, EnvelopeRecovered, EnvelopeRefused, EnvelopeRetried,
    EnvelopeTruncated, EnvelopesExhausted, PromptComposed, PromptParts, RecoveryPath, ToolCalled,
    ToolReturned, ToolStatus, ToolTransport,
};
use kernel::run::{Artifact, Cause, CausedBy, Driving, Event, NodeError, RunEvent, Usage};
use kernel::stream::{DefinitionRef, Owner, Parent, StreamHeader, StreamKind};
use kernel::time::Timestamp;
use serde_json::{Map, Value, json};

/// The time of the first sample; the others follow at one second each.
pub(crate) const START: Timestamp = Timestamp(1_750_000_000_005);

pub(crate) fn header() -> StreamHeader {
    let owner = Owner {
        tenant: "acme".into(),
        workspace: Some("letters".into()),
        principal: Some("user-7".into()),
        issuer: Some("https://id.example".into()),
    };
    StreamHeader {
        definition: Some(definition("print-letters")),
        parent: Some(Parent {
            run: "run-parent".into(),
            node: "send".into(),
            visit: 0,
            depth: 1,
        }),
        ..StreamHeader::new("run-sample".into(), StreamKind::Run, owner, START)
    }
    .seal_genesis()
}

fn definition(workflow: &str) -> DefinitionRef {
    DefinitionRef {
        workflow: workflow.into(),
        version: "1.0.0".into(),
        digest: Digest::compute(workflow.as_bytes()),
        put_by: Default::default(),
    }
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("an object is needed here, not {other}"),
    }
}

fn attempt() -> AttemptId {
    AttemptId {
        node: "print".into(),
        visit: 1,
        attempt: 2,
    }
}

fn error() -> NodeError {
    NodeError {
        code: "printer_jam".into(),
        message: "the printer is jammed; clear it and resume the run".into(),
        details: Some(json!({ "tray": 2 })),
        retryable: Some(true),
        host_lacks: false,
    }
}

fn tokens(n: u64) -> BTreeMap<String, u64> {
    BTreeMap::from([("tokens".to_owned(), n), ("toolCalls".to_owned(), 1)])
}

fn later(seconds: i64) -> Timestamp {
    Timestamp(START.0 + seconds * 1_000)
}

/// An impossible log whose events are all well formed: every fourth event begins a batch.
pub(crate) fn log() -> Vec<Event> {
    let bodies = bodies();
    bodies
        .into_iter()
        .zip(0..)
        .map(|(body, seq)| Event {
            seq,
            at: later(i64::try_from(seq).expect("few samples")),
            cause: (seq % 4 == 0).then_some(Cause {
                command: CausedBy::Create {
                    start: Start::Now,
                    request_id: None,
                },
                message: None,
                driving: Driving::Here,
            }),
            body,
        })
        .collect()
}

pub(crate) fn bodies() -> Vec<RunEvent> {
    let mut all = run_events();
    all.extend(node_events());
    all.extend(outside_events());
    all.extend(gate_events());
    all.extend(data_events());
    all.extend(orchestrator_events());
    all
}

fn run_events() -> Vec<RunEvent> {
    vec![
        RunEvent::RunStarted {
            workflow_id: "print-letters".into(),
            inputs: object(json!({ "copies": 3, "to": "Ada" })),
            variables: object(json!({ "copies": 3, "to": "Ada", "colour": "blue" })),
            transport: "rest".into(),
            engine_version: 1,
            tags: vec!["nightly".into()],
            metadata: object(json!({ "ticket": "L-1" })),
            configurable: object(json!({ "recursionLimit": 40 })),
        },
        RunEvent::RunStarted {
            workflow_id: "print-letters".into(),
            inputs: Map::new(),
            variables: Map::new(),
            transport: "cli".into(),
            engine_version: 1,
            tags: Vec::new(),
            metadata: Map::new(),
            configurable: Map::new(),
        },
        RunEvent::RunCompleted {
            outputs: object(json!({ "pages": 12 })),
            duration_ms: 61_250,
        },
        RunEvent::RunFailed {
            error: error(),
            failed_node_id: Some("print".into()),
            duration_ms: 999,
        },
        RunEvent::RunFailed {
            error: NodeError {
                code: String::new(),
                message: String::new(),
                details: Some(json!("plain text")),
                retryable: None,
                host_lacks: false,
            },
            failed_node_id: None,
            duration_ms: 7_200_000,
        },
        RunEvent::RunCancelled {
            reason: Some("parent-cancelled".into()),
            cancelled_by: Some("user-7".into()),
            parent_run_id: Some("run-parent".into()),
            duration_ms: 1_000,
        },
        RunEvent::RunStopping {
            ending: Ending::Failed {
                error: error(),
                node_id: Some("print".into()),
            },
        },
        RunEvent::RunStopping {
            ending: Ending::Cancelled {
                reason: Some("no longer needed".into()),
                by: Some("user-7".into()),
                parent: Some("run-parent".into()),
            },
        },
        RunEvent::RunDraining {
            reason: Some("maintenance".into()),
        },
        RunEvent::RunPaused {
            reason: None,
            drain_policy: DrainPolicy::DrainCurrentNode,
        },
        RunEvent::RunResumed {
            reason: Some("done".into()),
        },
        RunEvent::RunResuming {
            from_status: "running".into(),
        },
        RunEvent::RunForked {
            source_run_id: "run-source".into(),
            from_sequence: 5,
            tags: Some(vec!["again".into()]),
            metadata: None,
            configurable: Some(Map::new()),
        },
        RunEvent::RunDeadLettered {
            node_id: "print".into(),
            reason: "attempts_exhausted".into(),
            attempts: 3,
        },
    ]
}

fn node_events() -> Vec<RunEvent> {
    vec![
        RunEvent::NodeStarted {
            node_id: "print".into(),
            type_id: "runwright.process".into(),
            visit: 1,
            attempt: 2,
            inputs: Some(object(json!({ "file": "letter.pdf" }))),
            due_at: Some(later(60)),
            timeout_at: Some(later(90)),
        },
        RunEvent::AttemptRestarted {
            node_id: "print".into(),
            visit: 1,
            attempt: 2,
            restarts: 1,
        },
        RunEvent::NodeCompleted {
            node_id: "print".into(),
            visit: 0,
            attempt: 0,
            outputs: object(json!({ "pages": 12 })),
            port: Some("true".into()),
            declined_edges: vec!["print-refuse".into()],
            duration_ms: 12_034,
        },
        RunEvent::NodeFailed {
            node_id: "print".into(),
            visit: 1,
            error: error(),
            attempts: 3,
            declined_edges: vec!["print-post".into()],
        },
        RunEvent::NodeFailed {
            node_id: "print".into(),
            visit: 0,
            error: NodeError::new("missing_input", "port `file` has no value"),
            attempts: 0,
            declined_edges: Vec::new(),
        },
        RunEvent::NodeRetried {
            node_id: "print".into(),
            visit: 0,
            attempt: 1,
            delay_ms: 1_500,
            last_error: error(),
        },
        RunEvent::NodeSkipped {
            node_id: "post".into(),
            visit: 0,
            reason: SkipReason::RuleNotMet,
        },
        RunEvent::NodeCancelled {
            node_id: "post".into(),
            visit: 0,
            reason: "run-failed".into(),
        },
        RunEvent::NodeDispatched {
            node_id: "send".into(),
            visit: 0,
            child_run_id: "run-child".into(),
            child_workflow_id: "post-one".into(),
            definition: definition("post-one"),
            inputs: object(json!({ "to": "Ada" })),
            budget: tokens(100),
        },
        RunEvent::ChildSettled {
            child_run_id: "run-child".into(),
            status: ChildStatus::Failed,
            variables: object(json!({ "stamp": 1 })),
            outputs: Map::new(),
            error: Some(error()),
            spent: tokens(20),
        },
        RunEvent::ChildReported {
            child_run_id: "run-child".into(),
            status: Some("waiting-approval".into()),
            child_sequence: 7,
        },
    ]
}

fn orchestrator_events() -> Vec<RunEvent> {
    let next = || json!({ "kind": "next-worker", "nextWorkerIds": ["stamps"], "confidence": 0.25 });
    let step = |phase, harvested: &[&str], error| RunEvent::ChainStepped {
        node_id: "send".into(),
        visit: 1,
        phase,
        worker_id: "stamps".into(),
        worker: 0,
        child_run_id: (phase != ChainPhase::DispatchFailed).then(|| "run-child".into()),
        harvested_keys: harvested.iter().map(|key| (*key).to_owned()).collect(),
        error,
        follows: Some(1),
    };
    vec![
        RunEvent::AgentDecided {
            node_id: "send".into(),
            visit: 1,
            agent_id: "core.letters".into(),
            decision: next(),
            confidence: Some(0.5),
        },
        RunEvent::AgentHandedOff {
            node_id: "send".into(),
            visit: 1,
            from_agent_id: "core.letters".into(),
            to_agent_id: "host:stamps".into(),
            reason: Some("dispatch".into()),
        },
        RunEvent::OrchestratorDecided {
            node_id: "send".into(),
            visit: 1,
            agent_id: "core.letters".into(),
            decision: next(),
            iteration: 2,
        },
        step(ChainPhase::DispatchSucceeded, &[], None),
        step(ChainPhase::DispatchFailed, &[], Some(error())),
        step(ChainPhase::OutputHarvested, &["copies"], None),
        RunEvent::FannedOut {
            node_id: "send".into(),
            visit: 1,
            child_count: 3,
            max_concurrency: 2,
            join_mode: "quorum".into(),
        },
        RunEvent::Joined {
            node_id: "send".into(),
            visit: 1,
            join_outcome: JoinOutcome::Partial,
            completed_count: 2,
            failed_count: 1,
            cancelled_count: 0,
            merge_order: vec!["run-child".into()],
        },
        RunEvent::ConfidenceEscalated {
            node_id: "send".into(),
            visit: 1,
            confidence: 0.25,
            floor: 0.5,
            worker_id: Some("stamps".into()),
            original_decision: next(),
            follows: None,
        },
        RunEvent::LoopbackLimited {
            node_id: "send".into(),
            iterations: 5,
            limit: 5,
        },
    ]
}

fn outside_events() -> Vec<RunEvent> {
    vec![
        RunEvent::InterruptRequested {
            interrupt_id: "interrupt-1".into(),
            node_id: "ask".into(),
            visit: 0,
            kind: kernel::run::InterruptKind::Approval,
            key: "run-sample:ask:0".into(),
            asked_before: 0,
            data: json!({
                "artifactId": "letter",
                "artifactType": "text",
                "title": "Send this letter?",
                "actions": ["accept", "reject"]
            }),
            resume_schema: Some(json!({ "type": "object" })),
            timeout_at: Some(later(3_600)),
        },
        RunEvent::NodeSuspended {
            node_id: "ask".into(),
            visit: 0,
            interrupt_id: "interrupt-1".into(),
            kind: kernel::run::InterruptKind::Approval,
            doubt: None,
        },
        RunEvent::NodeSuspended {
            node_id: "send".into(),
            visit: 1,
            interrupt_id: "interrupt-2".into(),
            kind: kernel::run::InterruptKind::LowConfidence,
            doubt: Some(Doubt {
                agent_id: "core.letters".into(),
                threshold: 0.7,
                observed: 0.5,
            }),
        },
        RunEvent::InterruptResolved {
            interrupt_id: "interrupt-1".into(),
            node_id: "ask".into(),
            kind: kernel::run::InterruptKind::Approval,
            resume_value: json!({ "action": "accept" }),
            resolved_by: Some("user-8".into()),
        },
        RunEvent::NodeResumed {
            node_id: "ask".into(),
            visit: 0,
            interrupt_id: "interrupt-1".into(),
        },
        RunEvent::SignalReceived {
            name: "stamp-sold".into(),
            id: "sale-1".into(),
            payload: json!({ "price": 1.5 }),
        },
    ]
}

fn gate_events() -> Vec<RunEvent> {
    use ApprovalAction as A;
    let vote = || Vote {
        resume_value: Some(json!({ "action": "accept", "voter": "user-9" })),
        resolved_by: Some("user-8".into()),
    };
    let received = |action| RunEvent::ApprovalReceived {
        interrupt_id: "interrupt-1".into(),
        node_id: "ask".into(),
        visit: 0,
        action,
        decided_by: Some("user-8".into()),
        comment: Some("with a stamp".into()),
        feedback: Some("too long".into()),
        refine_feedback: Some(json!({ "scope": "items", "itemIds": ["2"] })),
        edited_artifact_data: Some(json!({ "text": "Dear Ada" })),
    };
    vec![
        RunEvent::ApprovalRequested {
            interrupt_id: "interrupt-1".into(),
            node_id: "ask".into(),
            visit: 1,
            artifact_id: "letter".into(),
            artifact_type: "text".into(),
            title: "Send this letter?".into(),
            actions: vec![A::Accept, A::Reject, A::Refine, A::EditAccept, A::Ask],
            approvers_list: vec!["user-8".into(), "user-9".into()],
            required_approvals: 2,
        },
        received(A::Accept),
        received(A::EditAccept),
        RunEvent::ApprovalReceived {
            interrupt_id: "interrupt-1".into(),
            node_id: "ask".into(),
            visit: 0,
            action: A::Timeout,
            decided_by: None,
            comment: None,
            feedback: None,
            refine_feedback: None,
            edited_artifact_data: None,
        },
        RunEvent::ApprovalGranted {
            interrupt_id: "interrupt-1".into(),
            node_id: "ask".into(),
            visit: 1,
            principal: "user-8".into(),
            granted: 1,
            required: 2,
            vote: vote(),
        },
        RunEvent::ApprovalRejected {
            interrupt_id: "interrupt-1".into(),
            node_id: "ask".into(),
            visit: 0,
            principal: "user-9".into(),
            reason: Some("too long".into()),
            vote: Vote::default(),
        },
        RunEvent::ApprovalOverridden {
            interrupt_id: "interrupt-1".into(),
            node_id: "ask".into(),
            visit: 0,
            principal: "user-7".into(),
            reason: "the site is down".into(),
            vote: Vote::default(),
        },
        RunEvent::ApprovalAsked {
            interrupt_id: "interrupt-1".into(),
            node_id: "ask".into(),
            visit: 0,
            vote: vote(),
        },
        RunEvent::ClarificationRequested {
            interrupt_id: "interrupt-2".into(),
            node_id: "ask".into(),
            visit: 0,
            questions: vec![
                json!({ "id": "paper", "question": "Which paper?" }),
                json!({ "id": "copies", "question": "How many?", "schema": { "type": "integer" } }),
            ],
        },
        RunEvent::ClarificationResolved {
            interrupt_id: "interrupt-2".into(),
            node_id: "ask".into(),
            visit: 0,
            answers: object(json!({ "paper": "blue", "copies": 2 })),
            answered_by: Some("user-8".into()),
        },
    ]
}

fn data_events() -> Vec<RunEvent> {
    vec![
        RunEvent::ChannelWritten {
            channel: "sent".into(),
            value: json!({ "to": "Ada" }),
            reducer: Reducer::Append,
            written_at: later(5),
            schema_version: 1,
            stamped: false,
            node_id: Some("send".into()),
        },
        RunEvent::ChannelWritten {
            channel: "lately".into(),
            value: json!("Ada"),
            reducer: Reducer::Append,
            written_at: later(6),
            schema_version: 1,
            stamped: true,
            node_id: None,
        },
        RunEvent::VariableChanged {
            name: "copies".into(),
            next: json!(4),
            node_id: Some("count".into()),
        },
        RunEvent::ArtifactCreated {
            artifact: Artifact {
                artifact_id: "artifact-1".into(),
                artifact_type: "process.stdout".into(),
                media_type: "text/plain".into(),
                size: 1_234_567,
                digest: Digest::compute(b"out"),
                parts: vec![Digest::compute(b"o"), Digest::compute(b"ut")],
            },
            node_id: "print".into(),
        },
        RunEvent::OutputChunk {
            node_id: "print".into(),
            visit: 1,
            attempt: 2,
            restart: 0,
            channel: OutputChannel::Stdout,
            chunk: "page 1\npage 2\u{1b}[2J\u{202e}\n".into(),
            is_last: true,
            meta: None,
        },
        RunEvent::OutputChunk {
            node_id: "draft".into(),
            visit: 0,
            attempt: 0,
            restart: 1,
            channel: OutputChannel::Text,
            chunk: "Dear ".into(),
            is_last: false,
            meta: Some(json!({ "finishReason": "stop", "model": "m-1", "seed": 7 })),
        },
        RunEvent::LogAppended {
            level: kernel::run::event::LogLevel::Warn,
            message: "paper is low".into(),
            attempt: Some(attempt()),
        },
        RunEvent::CapBreached {
            kind: CapKind::NodeExecutions,
            limit: 40,
            observed: 41,
            node_id: Some("print".into()),
        },
        RunEvent::CapBreached {
            kind: CapKind::BudgetCost,
            limit: 500,
            observed: 1_250_000,
            node_id: Some("print".into()),
        },
        RunEvent::ProviderUsage {
            usage: Usage {
                provider: "example".into(),
                model: "m-1".into(),
                input_tokens: 120,
                output_tokens: 30,
                cost_estimate_usd: Some(0.0125),
                duration_ms: Some(900),
                cache_read_tokens: Some(100),
                cache_write_tokens: Some(20),
            },
            node_id: "draft".into(),
            attempt: None,
        },
        RunEvent::ToolCalled(ToolCalled {
            node_id: "draft".into(),
            visit: 0,
            attempt: 0,
            agent_id: "letters.draft".into(),
            tool_name: "files.read".into(),
            call_id: "call-1".into(),
            inputs: Some(json!({ "path": "address.txt" })),
            args_hash: Digest::compute(b"{}").to_string(),
            transport: ToolTransport::Mcp,
            round: 1,
        }),
        RunEvent::ToolReturned(ToolReturned {
            node_id: "draft".into(),
            visit: 0,
            attempt: 0,
            agent_id: "letters.draft".into(),
            tool_name: "files.read".into(),
            call_id: "call-1".into(),
            status: ToolStatus::Ok,
            outcome: Some(json!({ "content": [{ "type": "text", "text": "1 Main St" }] })),
            error: None,
            duration_ms: Some(7),
        }),
        RunEvent::ToolReturned(ToolReturned {
            node_id: "draft".into(),
            visit: 1,
            attempt: 0,
            agent_id: "letters.draft".into(),
            tool_name: "files.write".into(),
            call_id: "call-2".into(),
            status: ToolStatus::Forbidden,
            outcome: None,
            error: Some(NodeError::new("tool_not_allowed", "the node does not list it").fatal()),
            duration_ms: None,
        }),
        RunEvent::EnvelopeRefused(EnvelopeRefused {
            node_id: "draft".into(),
            visit: 0,
            attempt: 0,
            provider: "example".into(),
            model: "m-1".into(),
            safety_category: Some("other".into()),
        }),
        RunEvent::EnvelopeTruncated(EnvelopeTruncated {
            node_id: "draft".into(),
            visit: 0,
            attempt: 0,
            provider: "example".into(),
            model: "m-1".into(),
            output_token_count: Some(16),
        }),
        RunEvent::EnvelopeRetried(EnvelopeRetried {
            node_id: "draft".into(),
            visit: 0,
            attempt: 0,
            asked: 2,
            reason: EnvelopeFault::SchemaViolation,
            previous_error: Some("required at /title".into()),
        }),
        RunEvent::EnvelopesExhausted(EnvelopesExhausted {
            node_id: "draft".into(),
            visit: 0,
            attempt: 0,
            asked: 2,
            reason: EnvelopeFault::ParseError,
        }),
        RunEvent::EnvelopeRecovered(EnvelopeRecovered {
            node_id: "draft".into(),
            visit: 0,
            attempt: 0,
            path: RecoveryPath::MarkdownFence,
        }),
        RunEvent::EnvelopeCoerced(EnvelopeCoerced {
            node_id: "draft".into(),
            visit: 0,
            attempt: 0,
            envelope: "Letter".into(),
            calls: 1,
        }),
        RunEvent::PromptComposed(PromptComposed {
            node_id: "draft".into(),
            visit: 0,
            attempt: 0,
            refs: vec!["prompt:letter".into()],
            parts: PromptParts::SystemAndUser,
            is_override: true,
            hash: Digest::compute(b"Dear").to_string(),
            variable_hashes: [("name".to_owned(), Digest::compute(b"Ada").to_string())].into(),
        }),
        RunEvent::BudgetReserved {
            attempt: attempt(),
            amounts: tokens(50),
        },
        RunEvent::BudgetSettled {
            attempt: attempt(),
            spent: tokens(30),
        },
        RunEvent::BudgetAnnounced {
            limits: [
                ("costMicroUsd".to_owned(), 2_500_000),
                ("tokens".to_owned(), 50),
            ]
            .into(),
            scope: BudgetScope::Run,
        },
        RunEvent::BudgetThresholdCrossed {
            dimension: "costMicroUsd".into(),
            consumed: 2_000_000,
            limit: 2_500_000,
            percent: json!(80),
        },
        RunEvent::BudgetExhausted {
            dimension: "toolCalls".into(),
            consumed: 3,
            limit: 3,
        },
        RunEvent::ReplayDiverged {
            source_run_id: StreamId::new("run-source"),
            at_sequence: 4,
            divergence_kind: DivergenceKind::TypeMismatch,
            divergence_point: Some("node.completed".into()),
        },
        RunEvent::ReplayDiverged {
            source_run_id: StreamId::new("run-source"),
            at_sequence: 9,
            divergence_kind: DivergenceKind::Extra,
            divergence_point: None,
        },
    ]
}
