//! The shape of a document.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{check, check_warnings, graph, load, node, plan, with};
use crate::definition::{
    Backoff, Definition, OnFailure, Plan, RetryPolicy, TriggerRule, UnknownTypes,
};
use crate::problem::{ProblemCode, Problems};

#[test]
fn a_small_definition_is_a_plan() {
    let plan = plan(&with(&[(
        "/variables/-",
        json!({"name": "x", "type": "number"}),
    )]));
    assert_eq!(plan.workflow.as_str(), "sample");
    assert_eq!(
        (plan.version.as_str(), plan.name.as_str()),
        ("1.0", "Sample")
    );
    assert_eq!(plan.settings.max_loop_iterations, 5);
    assert_eq!(plan.settings.timeout_ms, None);
    assert_eq!(
        plan.entries,
        [plan.node_ix("a").unwrap_or(super::super::NodeIx(9))]
    );
    assert!(plan.warnings.is_empty());
}

#[test]
fn the_digest_is_of_the_canonical_document() {
    let one = load(&with(&[])).map(|plan| plan.digest);
    let text = with(&[]).to_string().replace("\"x\":0", "\"x\" : 0.0");
    let two = Plan::load(text.as_bytes(), &super::Types, UnknownTypes::Refuse);
    assert_eq!(two.map(|plan| plan.digest), one);
    assert_ne!(
        load(&with(&[("/version", json!("1.1"))])).map(|plan| plan.digest),
        one
    );
}

#[test]
fn documents_that_are_not_objects_are_rejected() {
    check(
        &json!([]),
        &[": wrong_type: must be an object, not an array"],
    );
    check(&json!(null), &[": wrong_type: must be an object, not null"]);
}

#[test]
fn every_missing_field_is_listed() {
    check(
        &json!({}),
        &[
            ": missing_field: the field `metadata` is missing; add an object (it may be empty)",
            ": missing_field: the field `id` is missing; add a string",
            ": missing_field: the field `name` is missing; add a string",
            ": missing_field: the field `version` is missing; add a string",
            ": missing_field: the field `nodes` is missing; add an array",
            ": missing_field: the field `edges` is missing; add an array",
            ": missing_field: the field `triggers` is missing; add an array",
            ": missing_field: the field `variables` is missing; add an array",
            ": missing_field: the field `settings` is missing; add an object (it may be empty)",
        ],
    );
    check(
        &with(&[
            ("/nodes", json!([{}])),
            ("/edges", json!([{}])),
            ("/triggers", json!([{}])),
            ("/variables", json!([{}])),
            ("/channels", json!({"c": {}})),
        ]),
        &[
            "/nodes/0: missing_field: the field `id` is missing; add a string",
            "/nodes/0: missing_field: the field `typeId` is missing; add a string",
            "/nodes/0: missing_field: the field `name` is missing; add a string",
            "/nodes/0: missing_field: the field `position` is missing; add an object with the numbers `x` and `y`",
            "/nodes/0: missing_field: the field `config` is missing; add an object",
            "/nodes/0: missing_field: the field `inputs` is missing; add an object",
            "/edges/0: missing_field: the field `id` is missing; add a string",
            "/edges/0: missing_field: the field `sourceNodeId` is missing; add a string",
            "/edges/0: missing_field: the field `targetNodeId` is missing; add a string",
            "/triggers/0: missing_field: the field `id` is missing; add a string",
            "/triggers/0: missing_field: the field `type` is missing; add a string",
            "/variables/0: missing_field: the field `name` is missing; add a string",
            "/variables/0: missing_field: the field `type` is missing; add a string",
            "/channels/c: missing_field: the field `reducer` is missing; add a string",
        ],
    );
}

#[test]
fn unknown_fields_are_refused_with_a_guess() {
    check(
        &with(&[
            ("/nmae", json!(1)),
            ("/nodes/0/typeID", json!("x")),
            ("/nodes/0/unheardOf", json!(1)),
            ("/nodes/0/a~b%2Fc", json!(1)),
        ]),
        &[
            "/nmae: unknown_field: unknown field `nmae`; the fields are id, name, description, \
             version, type, isActive, status, tenantId, scopeId, slug, nodes, edges, triggers, \
             variables, groups, channels, configurableSchema, defaults, metadata, settings, \
             acceptsInheritedArtifacts, createdAt, updatedAt",
            "/nodes/0/a~0b%2Fc: unknown_field: unknown field `a~b%2Fc`; the fields are id, typeId, \
             name, position, config, inputs, credentialsRef, settings, outputRole, disabled, \
             notes, groupId, agent, envelopeContract, artifactType, cardType, outputSensitivity, \
             compensation, irreversibleEffect",
            "/nodes/0/typeID: unknown_field: unknown field `typeID`; the fields are id, typeId, \
             name, position, config, inputs, credentialsRef, settings, outputRole, disabled, \
             notes, groupId, agent, envelopeContract, artifactType, cardType, outputSensitivity, \
             compensation, irreversibleEffect",
            "/nodes/0/unheardOf: unknown_field: unknown field `unheardOf`; the fields are id, \
             typeId, name, position, config, inputs, credentialsRef, settings, outputRole, \
             disabled, notes, groupId, agent, envelopeContract, artifactType, cardType, \
             outputSensitivity, compensation, irreversibleEffect",
        ],
    );
    check(
        &with(&[("/desciption", json!("x")), ("/nodes/0/setings", json!({}))]),
        &[
            "/desciption: unknown_field: unknown field `desciption`; did you mean `description`?",
            "/nodes/0/setings: unknown_field: unknown field `setings`; did you mean `settings`?",
        ],
    );
}

#[test]
fn open_objects_warn_of_likely_misspellings() {
    check_warnings(
        &with(&[
            ("/settings/maxRetrys", json!(1)),
            ("/settings/whatever", json!(1)),
            ("/metadata/notes", json!("free")),
            (
                "/nodes/0/settings",
                json!({"timeoutMS": 5, "retry": {"factr": 1}, "retries": 2}),
            ),
        ]),
        &[
            "/nodes/0/settings/retries: unknown_field: the field `retries` is not read; the fields \
             are timeout, timeoutMs, maxRetries, retry, onFailure, compensation",
            "/nodes/0/settings/timeoutMS: unknown_field: the field `timeoutMS` is not read; did you mean `timeoutMs`?",
            "/nodes/0/settings/retry/factr: unknown_field: the field `factr` is not read; did you mean `factor`?",
            "/settings/maxRetrys: unknown_field: the field `maxRetrys` is not read; did you mean `maxRetries`?",
            "/settings/whatever: unknown_field: the field `whatever` is not read; the fields are \
             timeout, workTimeout, maxRetries, logLevel, maxLoopbackIterations, compensation, \
             budget",
        ],
    );
}

#[test]
fn wrong_values_are_listed() {
    check(
        &with(&[
            ("/id", json!("Not A Slug")),
            ("/name", json!("")),
            ("/version", json!(1)),
            ("/status", json!("activ")),
            ("/slug", json!("-x")),
            ("/isActive", json!("yes")),
            (
                "/metadata",
                json!({"complianceClass": "secret", "tags": [1, ""]}),
            ),
            (
                "/settings",
                json!({"timeout": -1, "maxRetries": 1.5, "maxLoopbackIterations": 0, "logLevel": "loud"}),
            ),
            (
                "/groups",
                json!([{"id": "g", "name": "G", "nodeIds": [1], "position": {}, "size": 1}]),
            ),
        ]),
        &[
            "/isActive: wrong_type: must be true or false, not a string",
            "/status: invalid_value: `activ` is not allowed here; did you mean `active`?",
            "/slug: invalid_value: must be lowercase letters, digits, `_` and `-`, and start with \
             a letter or digit",
            "/metadata/complianceClass: invalid_value: `secret` is not allowed here; it is one of public, pii, phi, pci, regulated",
            "/metadata/tags/0: wrong_type: must be a string, not a number",
            "/metadata/tags: invalid_value: must be at most 100 tags of 1 to 256 characters",
            "/groups/0/nodeIds/0: wrong_type: must be a string, not a number",
            "/groups/0/size: wrong_type: must be an object, not a number",
            "/id: invalid_value: must be lowercase letters, digits, `_` and `-`, and start with a \
             letter",
            "/name: invalid_value: must have from 1 to 256 characters, not 0",
            "/version: wrong_type: must be a string, not a number",
            "/settings/logLevel: invalid_value: `loud` is not allowed here; it is one of debug, info, warn, error",
            "/settings/timeout: invalid_value: must be from 0 to 316224000000",
            "/settings/maxRetries: wrong_type: must be an integer, not a number",
            "/settings/maxLoopbackIterations: invalid_value: must be from 1 to 1000000",
        ],
    );
}

#[test]
fn wrong_nodes_are_listed() {
    let mut odd = node("a", "Core.noop");
    odd["position"] = json!({"x": "left"});
    odd["inputs"] = json!({
        "a": 1,
        "b": {"type": "constant", "value": 1},
        "c": {"type": "static"},
        "d": {"type": "connection", "nodeId": "a"},
        "e": {"type": "variable", "variableName": "x", "value": 1},
        "f": {"value": 1},
    });
    odd["outputSensitivity"] = json!({"x": "yes"});
    check(
        &with(&[("/nodes", json!([odd, {"id": "x\u{7}"}, []]))]),
        &[
            "/nodes/0/typeId: invalid_value: `Core.noop` is not a type id; it starts with a \
             lowercase letter and has letters, digits, `.`, `_` and `-`",
            "/nodes/0/position/x: wrong_type: must be a number, not a string",
            "/nodes/0/position: missing_field: the field `y` is missing; add a number",
            "/nodes/0/inputs/a: wrong_type: must be an object, not a number",
            "/nodes/0/inputs/b/type: invalid_value: `constant` is not allowed here; it is one of static, expression, connection, variable",
            "/nodes/0/inputs/c: missing_field: the field `value` is missing; add the value",
            "/nodes/0/inputs/d: missing_field: the field `outputKey` is missing; add a string",
            "/nodes/0/inputs/e/value: unknown_field: unknown field `value`; the fields are type, \
             variableName, optional",
            "/nodes/0/inputs/f: missing_field: the field `type` is missing; add a string",
            "/nodes/0/outputSensitivity/x: wrong_type: must be true or false",
            "/nodes/1/id: invalid_value: must not contain control characters",
            "/nodes/1: missing_field: the field `typeId` is missing; add a string",
            "/nodes/1: missing_field: the field `name` is missing; add a string",
            "/nodes/1: missing_field: the field `position` is missing; add an object with the numbers `x` and `y`",
            "/nodes/1: missing_field: the field `config` is missing; add an object",
            "/nodes/1: missing_field: the field `inputs` is missing; add an object",
            "/nodes/2: wrong_type: must be an object, not an array",
            "/nodes/0/inputs/e/variableName: unknown_reference: unknown variable `x`; declare it \
             in `variables`",
        ],
    );
}

#[test]
fn node_settings_have_several_names_and_bounds() {
    let settings = |settings: Value| with(&[("/nodes/0/settings", settings)]);
    let read = |document: &Value| {
        let plan = plan(document);
        let node = &plan.nodes[0];
        (node.timeout_ms, node.retry, node.on_failure)
    };
    let retry = |max_retries, initial_ms, factor, max_ms| RetryPolicy {
        max_retries,
        backoff: Backoff {
            initial_ms,
            factor,
            max_ms,
        },
    };
    let default = Backoff::default();
    let plain = |n| retry(n, default.initial_ms, default.factor, default.max_ms);
    assert_eq!(read(&with(&[])), (None, plain(0), OnFailure::Fail));
    assert_eq!(
        read(&with(&[("/settings/maxRetries", json!(2))])),
        (None, plain(2), OnFailure::Fail)
    );
    let document = settings(json!({
        "timeoutMs": 50, "onFailure": "skip",
        "retry": {"maxAttempts": 4, "backoffMs": 10, "backoffFactor": 3, "maxDelayMs": 80},
    }));
    assert_eq!(
        read(&document),
        (Some(50), retry(3, 10, 3.0, 80), OnFailure::Skip)
    );
    let document = settings(json!({
        "timeout": 0, "maxRetries": 7, "retry": {"initialDelayMs": 0, "factor": 1.5},
    }));
    assert_eq!(
        read(&document),
        (None, retry(7, 0, 1.5, default.max_ms), OnFailure::Fail)
    );
    check(
        &settings(json!({
            "timeout": 1, "timeoutMs": 2, "maxRetries": 1000, "onFailure": "explode",
            "retry": {"maxAttempts": 0, "factor": 0.5, "maxDelayMs": -1},
        })),
        &[
            "/nodes/0/settings/timeoutMs: invalid_value: repeats `timeout`; keep one of them",
            "/nodes/0/settings/maxRetries: invalid_value: must be from 0 to 999",
            "/nodes/0/settings/onFailure: invalid_value: `explode` is not allowed here; it is one of fail, skip, ask",
            "/nodes/0/settings/retry/maxAttempts: invalid_value: must be from 1 to 1000",
            "/nodes/0/settings/retry/factor: invalid_value: must be from 1 to 100",
            "/nodes/0/settings/retry/maxDelayMs: invalid_value: must be from 0 to 316224000000",
        ],
    );
}

#[test]
fn waits_grow_and_stop_growing() {
    let backoff = Backoff {
        initial_ms: 100,
        factor: 2.0,
        max_ms: 1_000,
    };
    let waits: Vec<u64> = (0..6).map(|n| backoff.delay_ms(n)).collect();
    assert_eq!(waits, [100, 200, 400, 800, 1_000, 1_000]);
    assert_eq!(backoff.delay_ms(u32::MAX), 1_000);
    let flat = Backoff {
        initial_ms: 5,
        factor: 1.0,
        max_ms: 10,
    };
    assert_eq!(flat.delay_ms(u32::MAX), 5);
    assert_eq!(
        Backoff {
            initial_ms: 0,
            factor: 9.0,
            max_ms: 10
        }
        .delay_ms(u32::MAX),
        0
    );
}

#[test]
fn edges_and_conditions_have_a_shape() {
    let edge = |edge: Value| {
        let mut document = graph("a b", "a>b");
        if let (Some(target), Value::Object(more)) = (document["edges"][0].as_object_mut(), edge) {
            target.extend(more);
        }
        document
    };
    let rule = |rule: &str| plan(&edge(json!({"triggerRule": rule}))).edges[0].rule;
    for name in TriggerRule::WORDS {
        assert_eq!(rule(name).as_str(), name);
    }
    check(
        &edge(json!({"triggerRule": "all_sucess", "weight": 1, "sourceOutput": ""})),
        &[
            "/edges/0/weight: unknown_field: unknown field `weight`; the fields are id, \
             sourceNodeId, sourceOutput, targetNodeId, targetInput, condition, label, triggerRule",
            "/edges/0/sourceOutput: invalid_value: must not be empty",
            "/edges/0/triggerRule: invalid_value: `all_sucess` is not allowed here; did you mean `all_success`?",
        ],
    );
    let condition = |condition: Value| edge(json!({"condition": condition}));
    check(&condition(json!({"expression": "true"})), &[]);
    check(
        &condition(json!({})),
        &["/edges/0/condition: missing_field: the field `type` is missing; add a string"],
    );
    check(
        &condition(json!({"type": "equal", "left": "x", "right": 1})),
        &[
            "/edges/0/condition/type: invalid_value: `equal` is not allowed here; did you mean `equals`?",
        ],
    );
    check(
        &condition(json!({"type": "truthy", "left": "x", "right": 1})),
        &[
            "/edges/0/condition/right: unknown_field: has no meaning in a condition of type `truthy`; remove it",
        ],
    );
    check(
        &condition(json!({"type": "equals"})),
        &[
            "/edges/0/condition: missing_field: the field `left` is missing; add a string",
            "/edges/0/condition: missing_field: the field `right` is missing; add the value to compare with",
        ],
    );
    check(
        &condition(json!({"type": "regex", "left": "x", "right": 1})),
        &["/edges/0/condition/right: wrong_type: must be a string, not a number"],
    );
}

#[test]
fn triggers_and_channels_have_a_shape() {
    check(
        &with(&[
            ("/triggers/-", json!({"id": "t", "type": "cron"})),
            ("/triggers/-", json!({"id": "u", "type": "channel-write"})),
            (
                "/triggers/-",
                json!({
                    "id": "v", "type": "channel-write",
                    "config": {"onlyFrom": "sibling", "debounceMs": 60_001},
                }),
            ),
            (
                "/channels",
                json!({
                    "a": {"reducer": "apend"},
                    "b": {"reducer": "append", "default": {}, "maxSize": 0, "ttlMs": 99_999_999_999_u64},
                    "c": {"reducer": "vendor.acme.sum", "access": "secret"},
                    "d": {"reducer": "replace", "access": {"writer": ["a"]}, "compatibleWith": [0]},
                    "e": {"reducer": "counter", "access": {"readers": ["a*b", "core.*", "*", 1]}},
                }),
            ),
        ]),
        &[
            "/triggers/1/type: invalid_value: `cron` is not allowed here; it is one of manual, schedule, webhook, event, artifact, canvas, envelope, command, chat-message, channel-write",
            "/triggers/2: missing_field: the field `config` is missing; add an object that names the `channel`",
            "/triggers/3/config: missing_field: the field `channel` is missing; add a string",
            "/triggers/3/config/onlyFrom: invalid_value: `sibling` is not allowed here; it is one of child, parent, any",
            "/triggers/3/config/debounceMs: invalid_value: must be from 0 to 60000",
            "/channels/a/reducer: invalid_value: `apend` is not allowed here; did you mean `append`?",
            "/channels/b/default: wrong_type: must be an array for the reducer `append`, not an object",
            "/channels/b/maxSize: invalid_value: must be from 1 to 100000",
            "/channels/b/ttlMs: invalid_value: must be from 0 to 31536000000",
            "/channels/c/access: invalid_value: `secret` is not allowed here; write `public`, `private`, or an object with `readers` and `writers`",
            "/channels/d/compatibleWith/0: invalid_value: must be a schema version, which is an integer from 1",
            "/channels/d/access/writer: unknown_field: unknown field `writer`; did you mean \
             `writers`?",
            "/channels/e/access/readers/3: wrong_type: must be a string, not a number",
            "/channels/e/access/readers/0: invalid_value: must be a node id, a node type id, or \
             the start of one followed by `*`",
        ],
    );
}

#[test]
fn access_lists_are_strict() {
    let document = with(&[(
        "/channels",
        json!({
            "open": {"reducer": "replace"},
            "closed": {"reducer": "replace", "access": "private"},
            "some": {"reducer": "replace", "access": {"writers": ["a", "core.ai.*"]}},
        }),
    )]);
    let channels = plan(&document).channels;
    let may = |channel: &str, node: &str, type_id: &str| {
        let access = &channels[channel].access;
        (
            access.may_read(node, type_id),
            access.may_write(node, type_id),
        )
    };
    assert_eq!(may("open", "x", "y"), (true, true));
    assert_eq!(may("closed", "x", "y"), (false, false));
    assert_eq!(may("some", "a", "y"), (true, true));
    assert_eq!(may("some", "x", "core.ai.callPrompt"), (true, true));
    assert_eq!(may("some", "core.ai.x", "core.air"), (true, false));
}

#[test]
fn sizes_are_bounded() {
    let many = |n: usize| {
        let nodes: Vec<Value> = (0..n).map(|n| json!({"id": n.to_string()})).collect();
        load(&with(&[("/nodes", json!(nodes))]))
            .err()
            .unwrap_or_default()
    };
    let problems = many(crate::limits::MAX_NODES + 1);
    assert_eq!(problems.listed.len(), 1);
    assert_eq!(problems.listed[0].code, ProblemCode::TooLarge);
    let problems = many(1_000);
    assert_eq!((problems.listed.len(), problems.more), (100, 4_900));
    check(
        &with(&[("/nodes", json!([]))]),
        &["/nodes: invalid_value: must have at least 1 element"],
    );
    check(
        &with(&[("/nodes/0/id", json!("x".repeat(257)))]),
        &["/nodes/0/id: invalid_value: must have at most 256 bytes, not 257"],
    );
}

#[test]
fn messages_do_not_repeat_the_document() {
    let long = "q".repeat(10_000);
    let problems = load(&with(&[
        (&format!("/{long}"), json!(1)),
        ("/status", json!(long)),
    ]));
    let text = problems.err().unwrap_or_default().to_string();
    assert!(text.len() < 1_000, "{text}");
}

/// Documents that are nearly right: a valid one with a part replaced or removed.
fn broken_documents() -> impl Strategy<Value = Value> {
    let paths = [
        "/id",
        "/nodes",
        "/nodes/0",
        "/nodes/0/id",
        "/nodes/0/inputs",
        "/nodes/0/inputs/p",
        "/nodes/0/settings",
        "/nodes/1/config",
        "/edges",
        "/edges/0",
        "/edges/0/condition",
        "/edges/1/sourceNodeId",
        "/edges/1/sourceOutput",
        "/triggers",
        "/variables/0/type",
        "/channels",
        "/channels/c/reducer",
        "/settings",
        "/metadata/tags",
    ];
    let change = (
        prop::sample::select(paths.to_vec()),
        crate::json::tests::values(),
    );
    prop::collection::vec(change, 0..6).prop_map(|changes| {
        let mut document = graph(
            "h:core.loop a b:core.conditional c",
            "h.body>a a>h h.done>b b>c",
        );
        document["nodes"][0]["inputs"] = json!({"p": {"type": "expression", "expression": "1"}});
        document["nodes"][0]["settings"] = json!({});
        document["edges"][0]["condition"] = json!({"type": "truthy", "left": "x"});
        document["variables"] = json!([{"name": "v", "type": "string"}]);
        document["channels"] = json!({"c": {"reducer": "append"}});
        document["metadata"] = json!({"tags": []});
        for (path, value) in changes {
            if let Some(place) = document.pointer_mut(path) {
                *place = value;
            }
        }
        document
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_json_is_read_or_refused(document in crate::json::tests::values()) {
        let _ = load(&document);
    }

    #[test]
    fn any_broken_document_is_read_or_refused(document in broken_documents()) {
        // The two-step way refuses at least when the one-step way does.
        let in_steps = Definition::parse(&document).and_then(|definition| {
            Plan::compile(&definition, &super::Types, UnknownTypes::Refuse)
        });
        let found: Result<Plan, Problems> = load(&document);
        prop_assert_eq!(in_steps.is_ok(), found.is_ok());
    }
}
