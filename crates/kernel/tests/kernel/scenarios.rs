//! Runs that together contain every kind of event. The golden logs are made from them once, and the
//! cut tests cut them everywhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use kernel::audit::Actor;
use kernel::digest::Digest;
use kernel::run::event::{
    Artifact, ChildStatus, DivergenceKind, DrainPolicy, OutputChannel, Usage,
};
use kernel::run::report::{
    EnvelopeCoerced, EnvelopeFault, EnvelopeRecovered, EnvelopeRefused, EnvelopeRetried,
    EnvelopeTruncated, EnvelopesExhausted, PromptComposed, PromptParts, RecoveryPath, ToolCalled,
    ToolReturned, ToolStatus, ToolTransport, Used,
};
use kernel::run::{
    ChannelWrite, Command, Completion, Create, Driving, Envelope, Found, NodeError, Outcome,
    Report, Start,
};
use kernel::stream::{DefinitionRef, ForkMode, Parent, Policy};
use kernel::trace::TraceContext;
use serde_json::{Map, Value, json};

mod workers;

use crate::flow;
use crate::world::{World, header, object};

/// A run with the document of its workflow.
pub(crate) struct Scenario {
    /// The name of its golden log.
    pub(crate) name: &'static str,
    /// The document.
    pub(crate) document: Value,
    /// The run.
    pub(crate) world: World,
}

/// Every scene.
pub(crate) fn all() -> Vec<Scenario> {
    vec![
        scene("straight", "a -> b -> c", straight),
        scene("branches", BRANCHES, branches),
        scene("failures", FAILURES, failures),
        scene("retries", RETRIES, retries),
        scene("data", DATA, data),
        scene("output", "a -> b", output),
        scene("calls", CALLS, calls),
        scene("prompts", CALLS, prompts),
        scene("rounds-of-calls", CALLS, rounds_of_calls),
        limited_scene("budget", "a -> b", limited(), budget),
        limited_scene("budget-of-calls", "a\nb", limited(), crate::budget::scene),
        limited_scene("budget-told", "a\nb", limited(), crate::budget::told_scene),
        limited_scene(
            "budget-shares",
            &crate::shares::shared(),
            limited(),
            crate::shares::scene,
        ),
        scene(
            "working-time",
            crate::bounds::WORKING_TIME,
            crate::bounds::scene,
        ),
        scene("gathered", &crate::fan::gathered(), crate::fan::gather),
        scene("loops", LOOPS, loops),
        scene("loop-limit", LOOP_LIMIT, loop_limit),
        scene("timers", TIMERS, timers),
        scene("interrupts", INTERRUPTS, interrupts),
        scene("approvals", APPROVALS, approvals),
        scene(
            "general",
            crate::gates::GENERAL,
            crate::gates::scene_of_general,
        ),
        scene("asking", crate::asking::SCENE, crate::asking::scene),
        scene(
            "asking-workers",
            crate::asking::SCENE_OF_WORKERS,
            crate::asking::scene_of_workers,
        ),
        scene(
            "governed",
            crate::governance::SCENE,
            crate::governance::scene,
        ),
        scene("fan", crate::fan::SCENE, crate::fan::scene),
        scene("questions", QUESTIONS, questions),
        scene("pauses", "a -> b -> c\nd", pauses),
        scene("kept-to", crate::channels::SCENE, crate::channels::scene),
        scene("cancel", "a\nask: core.interrupt", cancel),
        scene("take-over", "a -> b\nc -> h any_failed", take_over),
        scene("said-again", "a -> b", crate::takeover::scene),
        limited_scene("parent", PARENT, limited(), parent),
        child(),
        traced(),
        scene("waiting", WAITING, waiting),
        limited_scene("slots", "a\nb\nc -> d", one_slot(), slots),
        branched(),
        diverged(),
        crate::replays::unfinished(),
        crate::replays::cut(),
    ]
    .into_iter()
    .chain(workers::all())
    .collect()
}

fn scene(name: &'static str, text: &str, play: fn(&mut World)) -> Scenario {
    limited_scene(name, text, Policy::default(), play)
}

fn limited_scene(name: &'static str, text: &str, policy: Policy, play: fn(&mut World)) -> Scenario {
    let document = flow::document(text);
    let mut world = World::new(flow::compile(&document), policy);
    play(&mut world);
    Scenario {
        name,
        document,
        world,
    }
}

fn begin(run: &mut World) {
    let mut create = Create::new(Map::new(), "test", Start::Now);
    // As the golden logs were written, before logs named the limits of a budget.
    create.announces_budget = false;
    run.when(Command::Create(create)).decided();
}

fn straight(run: &mut World) {
    let mut create = Create::new(
        object(json!({ "k": [1, "ü", null] })),
        "rest",
        Start::WhenClaimed,
    );
    create.tags = vec!["red".into()];
    create.metadata = object(json!({ "team": "x" }));
    create.configurable = object(json!({ "temperature": 0.5 }));
    run.when(Command::Create(create)).decided();
    run.at(5).advance().decided();
    run.at(20).gives("a", json!({ "n": 1 })).decided();
    run.at(21).completes("b").decided();
    run.at(40).gives("c", json!({ "text": "done" })).decided();
}

const BRANCHES: &str = r#"gate: core.conditional {"config":{"expression":"nodes.a.outputs.n > 1"}}
    a -> gate
    gate.true -> yes
    gate.false -> no
    off: {"disabled":true}
    a -> off -> after none_failed
    a -> small if output.n < 2
    a -> big if output.n >= 2
    small -> join any_success
    big -> join any_success
    yes -> last all_complete
    no -> last all_complete"#;

fn branches(run: &mut World) {
    begin(run);
    run.gives("a", json!({ "n": 2 })).decided();
    run.completes("big").decided();
    run.completes("yes").decided();
    run.completes("after").decided();
    run.completes("join").decided();
    run.completes("last").decided();
}

const FAILURES: &str = r#"a: {"settings":{"onFailure":"skip"}}
    a -> b none_failed
    b -> h any_failed
    b -> next
    h -> c"#;

fn failures(run: &mut World) {
    begin(run);
    run.fails("a", "boom").decided();
    run.fails("b", "boom").decided();
    run.completes("h").decided();
    run.fails("c", "bang").decided();
}

const RETRIES: &str = r#"a: {"settings":{"retry":{"maxRetries":2,"initialDelayMs":100}}}
    b
    ask: core.interrupt"#;

fn retries(run: &mut World) {
    begin(run);
    run.fails("a", "flaky").decided();
    run.next_timer().decided();
    run.fails("a", "flaky").decided();
    run.next_timer().decided();
    run.fails("a", "flaky").decided();
    run.stopped("b").decided();
}

const DATA: &str = r#"s: core.setVariable {"config":{"variables":{"x":1,"y":2}}}
    w: core.channelWrite {"config":{"channel":"log","expression":"variables.x + variables.y"}}
    a -> s -> w -> b
    b: {"inputs":{"p":{"type":"expression","expression":"variables.x * 2"}}}
    workflow: {"variables":[{"name":"x","type":"number"},{"name":"y","type":"number"}],"channels":{"log":{"reducer":"append","maxSize":3},"total":{"reducer":"counter"},"last":{"reducer":"replace"}}}"#;

fn data(run: &mut World) {
    begin(run);
    let write = |channel: &str, value| ChannelWrite {
        channel: channel.into(),
        value,
    };
    let completion = Completion {
        outputs: object(json!({ "ok": true })),
        variables: object(json!({ "x": 7, "free": { "deep": [1.5, 1e21] } })),
        channel_writes: vec![
            write("log", json!("one")),
            write("log", json!("two")),
            write("total", json!(3)),
            write("last", json!({ "v": null })),
        ],
        ..Completion::default()
    };
    run.completes_with("a", completion).decided();
    run.completes("b").decided();
}

fn output(run: &mut World) {
    begin(run);
    let attempt = run.attempt("a");
    for (channel, chunk, is_last) in [
        (OutputChannel::Stdout, "one\n", false),
        (OutputChannel::Stderr, "warn \u{1F980}", true),
        (OutputChannel::Text, "", true),
    ] {
        run.when(Command::Output {
            attempt: attempt.clone(),
            channel,
            chunk: chunk.into(),
            is_last,
            meta: is_last.then(|| json!({ "finishReason": "stop" })),
        })
        .decided();
    }
    run.when(Command::Log {
        attempt,
        level: kernel::run::event::LogLevel::Info,
        message: "half way".into(),
    })
    .decided();
    let artifact = Artifact {
        artifact_id: "artifact-1".into(),
        artifact_type: "process.stdout".into(),
        media_type: "text/plain".into(),
        size: 6,
        digest: Digest::compute(b"abcdef"),
        parts: vec![Digest::compute(b"abc"), Digest::compute(b"def")],
    };
    let usage = Usage {
        provider: "p".into(),
        model: "m".into(),
        input_tokens: 10,
        output_tokens: 20,
        cost_estimate_usd: Some(0.001),
        duration_ms: Some(12),
        cache_read_tokens: None,
        cache_write_tokens: None,
    };
    run.completes_with(
        "a",
        Completion {
            artifacts: vec![artifact],
            usage: vec![usage],
            ..Completion::default()
        },
    )
    .decided();
    run.completes("b").decided();
}

/// Further reports of model nodes: named prompts, and answers found inside other text.
fn prompts(run: &mut World) {
    begin(run);
    for report in [
        Report::PromptComposed(PromptComposed {
            node_id: "a".into(),
            visit: 0,
            attempt: 0,
            refs: vec!["prompt:greeting".into()],
            parts: PromptParts::UserOnly,
            is_override: false,
            hash: Digest::compute(b"hello").to_string(),
            variable_hashes: [("who".to_owned(), Digest::compute(b"Ada").to_string())].into(),
        }),
        Report::PromptComposed(PromptComposed {
            node_id: "a".into(),
            visit: 0,
            attempt: 0,
            refs: vec!["prompt:greeting".into()],
            parts: PromptParts::SystemAndUser,
            is_override: true,
            hash: Digest::compute(b"hi").to_string(),
            variable_hashes: BTreeMap::new(),
        }),
        Report::EnvelopeCoerced(EnvelopeCoerced {
            node_id: "a".into(),
            visit: 0,
            attempt: 0,
            envelope: "Letter".into(),
            calls: 1,
        }),
        Report::EnvelopeRecovered(EnvelopeRecovered {
            node_id: "a".into(),
            visit: 0,
            attempt: 0,
            path: RecoveryPath::MarkdownFence,
        }),
        Report::EnvelopeRecovered(EnvelopeRecovered {
            node_id: "a".into(),
            visit: 0,
            attempt: 0,
            path: RecoveryPath::BraceWalker,
        }),
        Report::ToolCalled(ToolCalled {
            node_id: "a".into(),
            visit: 0,
            attempt: 0,
            agent_id: String::new(),
            tool_name: "process.count".into(),
            call_id: "c-1".into(),
            inputs: None,
            args_hash: Digest::compute(b"{}").to_string(),
            transport: ToolTransport::Native,
            round: 0,
        }),
    ] {
        let report = Box::new(report);
        run.when(Command::Report { report }).decided();
    }
    run.completes("a").decided();
    run.completes("b").decided();
}

/// A model that calls a tool, with the usage of each of its answers.
fn rounds_of_calls(run: &mut World) {
    begin(run);
    let usage = Usage {
        provider: "p".into(),
        model: "m".into(),
        input_tokens: 10,
        output_tokens: 20,
        cost_estimate_usd: Some(0.5),
        duration_ms: Some(3),
        cache_read_tokens: None,
        cache_write_tokens: None,
    };
    for round in [1, 2] {
        for report in [
            Report::Used(Used {
                node_id: "a".into(),
                visit: 0,
                attempt: 0,
                usage: usage.clone(),
                spent: None,
            }),
            Report::ToolCalled(ToolCalled {
                node_id: "a".into(),
                visit: 0,
                attempt: 0,
                agent_id: String::new(),
                tool_name: "process.count".into(),
                call_id: format!("c-{round}"),
                inputs: None,
                args_hash: Digest::compute(b"{}").to_string(),
                transport: ToolTransport::Native,
                round,
            }),
        ] {
            let report = Box::new(report);
            run.when(Command::Report { report }).decided();
        }
    }
    let outcome = Outcome::Completed(Completion {
        usage: vec![usage],
        ..Completion::default()
    });
    run.finish("a", outcome).decided();
    let total = run.run.facts().expect("facts").usage.clone();
    assert_eq!(total.expect("usage").input_tokens, 30, "each counts once");
    run.completes("b").decided();
}

const CALLS: &str = r#"a: {"agent":{"agentId":"agent-seven"}}
    a -> b"#;

/// Reports of model and tool nodes: calls that return, fail or are forbidden, and answers that are
/// refused, cut off or of the wrong shape.
fn calls(run: &mut World) {
    begin(run);
    let say = |run: &mut World, report: Report| {
        let report = Box::new(report);
        run.when(Command::Report { report }).decided();
    };
    let call = |id: &str, inputs: Option<Value>| {
        Report::ToolCalled(ToolCalled {
            node_id: "a".into(),
            visit: 0,
            attempt: 0,
            agent_id: String::new(),
            tool_name: "files.read".into(),
            call_id: id.into(),
            inputs,
            args_hash: Digest::compute(id.as_bytes()).to_string(),
            transport: ToolTransport::Mcp,
            round: 0,
        })
    };
    let returned = |id: &str, status, outcome: Option<Value>, error| {
        let duration_ms = (status != ToolStatus::Forbidden).then_some(12);
        Report::ToolReturned(ToolReturned {
            node_id: "a".into(),
            visit: 0,
            attempt: 0,
            agent_id: String::new(),
            tool_name: "files.read".into(),
            call_id: id.into(),
            status,
            outcome,
            error,
            duration_ms,
        })
    };
    say(
        run,
        call("c-1", Some(json!({ "path": "a.txt", "from": 1.0 }))),
    );
    say(
        run,
        returned("c-1", ToolStatus::Ok, Some(json!([{ "text": "ü" }])), None),
    );
    say(run, call("c-2", None));
    let error = NodeError::new("mcp_tool_error", "there is no such file");
    say(run, returned("c-2", ToolStatus::Error, None, Some(error)));
    say(run, call("c-3", None));
    say(run, returned("c-3", ToolStatus::Forbidden, None, None));
    say(
        run,
        Report::EnvelopeRetried(EnvelopeRetried {
            node_id: "a".into(),
            visit: 0,
            attempt: 0,
            asked: 2,
            reason: EnvelopeFault::SchemaViolation,
            previous_error: Some("type at /n".into()),
        }),
    );
    say(
        run,
        Report::EnvelopeTruncated(EnvelopeTruncated {
            node_id: "a".into(),
            visit: 0,
            attempt: 0,
            provider: "p".into(),
            model: "m".into(),
            output_token_count: Some(16),
        }),
    );
    say(
        run,
        Report::EnvelopesExhausted(EnvelopesExhausted {
            node_id: "a".into(),
            visit: 0,
            attempt: 0,
            asked: 2,
            reason: EnvelopeFault::Truncation,
        }),
    );
    say(
        run,
        Report::EnvelopeRefused(EnvelopeRefused {
            node_id: "a".into(),
            visit: 0,
            attempt: 0,
            provider: "p".into(),
            model: "m".into(),
            safety_category: Some("other".into()),
        }),
    );
    let usage = Usage {
        provider: "p".into(),
        model: "m".into(),
        input_tokens: 10,
        output_tokens: 20,
        cost_estimate_usd: None,
        duration_ms: Some(3),
        cache_read_tokens: Some(8),
        cache_write_tokens: Some(2),
    };
    run.completes_with(
        "a",
        Completion {
            usage: vec![usage],
            ..Completion::default()
        },
    )
    .decided();
    run.completes("b").decided();
}

fn tokens(n: u64) -> BTreeMap<String, u64> {
    BTreeMap::from([("tokens".to_owned(), n)])
}

fn limited() -> Policy {
    Policy {
        budget: tokens(100),
        ..Policy::default()
    }
}

fn budget(run: &mut World) {
    begin(run);
    for (node, amount) in [("a", 60), ("b", 30)] {
        let attempt = run.attempt(node);
        run.when(Command::Reserve {
            attempt,
            amounts: tokens(amount),
            least: None,
        })
        .decided();
        let completion = Completion {
            spent: tokens(amount / 2),
            ..Completion::default()
        };
        run.completes_with(node, completion).decided();
    }
}

const LOOPS: &str = r#"o: core.loop {"config":{"items":["x","y"]}}
    o.body -> i
    i: core.loop {"config":{"times":2}}
    i.body -> a
    a -> i if output.go
    i.done -> o
    o.done -> z"#;

fn loops(run: &mut World) {
    begin(run);
    run.gives("a", json!({ "go": true })).decided();
    run.gives("a", json!({ "go": true })).decided();
    run.gives("a", json!({ "go": false })).decided();
    run.completes("z").decided();
}

const LOOP_LIMIT: &str = r#"head: core.loop {"config":{"while":"true","maxIterations":2}}
    head.body -> a -> head
    wait: core.delay {"config":{"ms":5000}}"#;

fn loop_limit(run: &mut World) {
    begin(run);
    run.completes("a").decided();
    run.completes("a").decided();
}

const TIMERS: &str = r#"wait: core.delay {"config":{"ms":100}}
    wait -> slow
    slow: {"settings":{"timeout":50}}
    slow -> late any_failed
    workflow: {"settings":{"timeout":1000}}"#;

fn timers(run: &mut World) {
    begin(run);
    run.next_timer().decided();
    run.next_timer().decided();
    run.next_timer().decided();
    run.stopped("late").decided();
}

const INTERRUPTS: &str = r#"ask: core.interrupt {"config":{"kind":"approval","key":"go","data":{"q":1},"timeoutMs":100}}
    a -> event
    event: core.interrupt {"config":{"kind":"external-event","key":"news","data":{"eventType":"news","correlation":{}}}}
    ask -> b
    event -> unasked
    unasked: core.interrupt {"config":{"timeoutMs":50},"settings":{"onFailure":"skip"}}"#;

fn interrupts(run: &mut World) {
    begin(run);
    run.signal("news", "1", json!({ "early": true })).decided();
    let interrupt = run.interrupt("ask");
    run.at(10)
        .when(Command::Resolve {
            interrupt,
            value: json!({ "action": "accept" }),
            by: Some("user-1".into()),
            capacity: Default::default(),
        })
        .decided();
    run.completes("a").decided();
    run.completes("b").decided();
    run.next_timer().decided();
}

const APPROVALS: &str = r#"several: core.approvalGate {"name":"Ship it?","config":{"requiredApprovals":3,"rejectionPolicy":"majority","actions":["accept","reject","edit-accept","ask"],"artifactData":{"v":1}}}
    several -> b
    head: core.loop {"config":{"times":5}}
    head.body -> draft -> gate
    gate: core.approvalGate {"config":{"title":"Is it good?","actions":["accept","reject","refine"],"approversList":["ada","grace"]}}
    gate.refine -> head
    gate.reject -> sorry
    late: core.approvalGate {"config":{"timeoutMs":1000,"timeoutAction":"reject"}}
    late.reject -> reminder
    never: core.approvalGate {"config":{"timeoutMs":2000},"settings":{"onFailure":"skip"}}"#;

fn approvals(run: &mut World) {
    begin(run);
    run.answer(
        "several",
        "ada",
        json!({ "action": "ask", "comment": "which one?" }),
    )
    .decided();
    run.answer("several", "ada", json!({ "action": "accept" }))
        .decided();
    run.answer(
        "several",
        "bob",
        json!({ "action": "reject", "feedback": "too soon" }),
    )
    .decided();
    let edited = json!({ "action": "edit-accept", "editedArtifactData": { "v": 2.5 } });
    run.at(5).answer("several", "eve", edited).decided();
    run.answer("several", "grace", json!({ "action": "accept" }))
        .decided();
    run.completes("draft").decided();
    let refine =
        json!({ "action": "refine", "refineFeedback": { "scope": "whole", "text": "shorter" } });
    run.at(10).answer("gate", "ada", refine).decided();
    run.completes("draft").decided();
    run.answer("gate", "grace", json!({ "action": "reject" }))
        .decided();
    run.completes("b").decided();
    run.completes("sorry").decided();
    run.next_timer().decided();
    run.completes("reminder").decided();
    run.next_timer().decided();
}

const QUESTIONS: &str = r#"ask: core.clarificationGate {"config":{"questions":[{"id":"q1","question":"Which colour?"},{"id":"q2","question":"How many?","schema":{"type":"integer"}}]}}
    ask -> b
    again: core.approvalGate {"config":{"actions":["accept","refine"]}}"#;

fn questions(run: &mut World) {
    begin(run);
    let answers =
        json!({ "answers": [{ "id": "q1", "answer": "blue" }, { "id": "q2", "answer": 2 }] });
    run.at(3).answer("ask", "ada", answers).decided();
    run.completes("b").decided();
    // No edge follows a refinement: the gate asks again.
    let refine =
        json!({ "action": "refine", "refineFeedback": { "scope": "items", "itemIds": ["1"] } });
    run.at(4).answer("again", "ada", refine).decided();
    run.at(5)
        .answer("again", "ada", json!({ "action": "accept" }))
        .decided();
}

fn pauses(run: &mut World) {
    begin(run);
    run.pause(DrainPolicy::DrainCurrentNode).decided();
    run.completes("a").decided();
    run.completes("d").decided();
    run.when(Command::Resume {
        reason: Some("lunch is over".into()),
    })
    .decided();
    run.pause_and_resume(DrainPolicy::Immediate);
    run.completes("b").decided();
    run.completes("c").decided();
}

fn cancel(run: &mut World) {
    begin(run);
    run.when(Command::Cancel {
        reason: Some("not needed".into()),
        by: Some(Actor::new("user-1")),
        parent: None,
    })
    .decided();
    run.stopped("a").decided();
}

fn take_over(run: &mut World) {
    begin(run);
    let lost = run.attempt("c");
    run.take_over(&[lost]).decided();
    run.completes("a").decided();
    run.take_over(&[]).decided();
    run.completes("b").decided();
    run.completes("h").decided();
}

const PARENT: &str = r#"s: core.subWorkflow {"config":{"workflowId":"child","budget":{"maxTokens":40},"inputMapping":{"p":"in"},"outputMapping":{"out":"result"}}}
    t: core.subWorkflow {"config":{"workflowId":"gone"}}
    s -> b
    t -> h any_failed
    workflow: {"variables":[{"name":"in","type":"number","defaultValue":7},{"name":"out","type":"number"}]}"#;

const TRACED: &str = r#"s: core.subWorkflow {"config":{"workflowId":"child"}}"#;

const CHILD: &str = "x";

pub(crate) fn child_definition() -> DefinitionRef {
    let plan = flow::plan(CHILD);
    DefinitionRef {
        workflow: plan.workflow.clone(),
        version: plan.version.clone(),
        digest: plan.digest,
        put_by: Default::default(),
    }
}

fn parent(run: &mut World) {
    begin(run);
    let attempt = run.attempt("s");
    let found = Found::Definition(child_definition());
    run.when(Command::Dispatch { attempt, found }).decided();
    let attempt = run.attempt("t");
    let found = Found::Not(NodeError::new("workflow_not_found", "put it first").fatal());
    run.when(Command::Dispatch { attempt, found }).decided();
    let (child, _) = run.sent().pop().expect("a message creates the child");
    run.completes("h").decided();
    run.when(Envelope {
        command: Command::ChildSettled {
            child: child.clone(),
            status: ChildStatus::Completed,
            variables: object(json!({ "result": 5 })),
            outputs: object(json!({ "x": {} })),
            error: None,
            spent: tokens(11),
        },
        message: Some(format!("{child}.9.0").as_str().into()),
        driving: Driving::Here,
    })
    .decided();
    run.completes("b").decided();
}

/// A run in its creator's trace, which starts another.
fn traced() -> Scenario {
    let document = flow::document(TRACED);
    let plan = flow::compile(&document);
    let mut header = header(&plan, Policy::default());
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    header.trace = TraceContext::parse(parent, Some("acme=t61rcWkgMzE"));
    let mut world = World::with_header(Arc::new(header.seal_genesis()), plan);
    begin(&mut world);
    let attempt = world.attempt("s");
    let found = Found::Definition(child_definition());
    world.when(Command::Dispatch { attempt, found }).decided();
    world.cancel().decided();
    Scenario {
        name: "traced",
        document,
        world,
    }
}

fn child() -> Scenario {
    let document = flow::document(CHILD);
    let plan = flow::compile(&document);
    let mut header = header(&plan, Policy::default());
    header.parent = Some(Parent {
        run: "run-0".into(),
        node: "s".into(),
        visit: 0,
        depth: 1,
    });
    let mut world = World::with_header(Arc::new(header.seal_genesis()), plan);
    let create = Create::new(object(json!({ "p": 7 })), "run", Start::WhenClaimed);
    world
        .when(Envelope {
            command: Command::Create(create),
            message: Some("run-0.3.0".into()),
            driving: Driving::Here,
        })
        .decided();
    world.advance().decided();
    world
        .when(Envelope {
            command: Command::Cancel {
                reason: Some("parent-failed".into()),
                by: None,
                parent: Some("run-0".into()),
            },
            message: Some("run-0.7.0".into()),
            driving: Driving::Here,
        })
        .decided();
    world.stopped("x").decided();
    Scenario {
        name: "child",
        document,
        world,
    }
}

const WAITING: &str = r#"ask: core.interrupt {"config":{"kind":"clarification","data":{"questions":[{"id":"q1","question":"Which?"}]}}}
    wait: core.delay {"config":{"ms":60000}}
    a: {"settings":{"timeout":500,"retry":{"maxRetries":3,"initialDelayMs":250}}}
    b
    s: core.subWorkflow {"config":{"workflowId":"child"}}"#;

/// A run in which everything is unfinished.
fn waiting(run: &mut World) {
    begin(run);
    run.fails("a", "flaky").decided();
    let attempt = run.attempt("s");
    let found = Found::Definition(child_definition());
    run.when(Command::Dispatch { attempt, found }).decided();
    run.signal("nobody", "1", json!(1)).decided();
}

fn one_slot() -> Policy {
    Policy {
        max_parallel: Some(1),
        priority: 3,
        concurrency_key: Some("one".into()),
        max_node_executions: Some(3),
        ..Policy::default()
    }
}

/// Ends at the limit of node executions.
fn slots(run: &mut World) {
    begin(run);
    run.completes("a").decided();
    run.completes("b").decided();
    run.finish("c", Outcome::completed(Map::new())).decided();
}

/// A branch of a loop cut in the middle of a batch, with another end than its source.
fn branched() -> Scenario {
    let source = scene("loops", LOOPS, loops);
    let overlay = kernel::run::Overlay {
        tags: Some(vec!["what-if".into()]),
        metadata: None,
        configurable: Some(Map::new()),
    };
    let forked = source.world.fork_with(ForkMode::Branch, 8, overlay);
    let mut world = forked.expect("a branch is made").world;
    world.drive_to_the_end();
    Scenario {
        name: "branch",
        document: source.document,
        world,
    }
}

/// A replay whose source decided differently: its definition had another trigger rule.
fn diverged() -> Scenario {
    let rules = flow::document("a -> c any_success\nb -> c any_success");
    let mut changed = World::new(flow::compile(&rules), Policy::default());
    let create = Create::new(Map::new(), "test", Start::Now);
    changed.when(Command::Create(create)).decided();
    for node in ["a", "c", "b"] {
        changed.completes(node).decided();
    }
    let document = flow::document("a -> c\nb -> c");
    let plan = flow::compile(&document);
    let mut header = (*changed.run.header).clone();
    header.definition.as_mut().expect("a definition").digest = plan.digest;
    changed.run.header = Arc::new(header);
    changed.run.plan = plan;
    let forked = changed.replay(0);
    let divergence = forked.fork.divergence().expect("it diverges");
    assert_eq!(divergence.kind, DivergenceKind::Missing);
    Scenario {
        name: "replay-diverged",
        document,
        world: forked.world,
    }
}
