use kernel::time::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::calls::Attempt;
use super::document::{Agent, Config, MatchStatus, Mode, Model, ReplayStatus, Snapshot};
use super::hash::{canonical_json, digest, hash_json, hash_text, same};
use super::ladder::{Compared, Field, Level, Strategy as By};
use super::read::{self, Document};
use super::retention::{Facts, Verdict};
use super::{naming, schema, seal};

const ID: &str = "0190a7c1-0000-7000-8000-00000000000a";
const AT: &str = "2026-03-01T08:30:15.250Z";

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn snapshot() -> Snapshot {
    let config = Config::new(Model::named("small-1"), Mode::Default);
    let mut snapshot = Snapshot::new(ID.into(), "tidy the shed".into(), at(AT), config);
    snapshot.inputs.user_prompt = Some("Sort the rakes".into());
    snapshot.outputs.response = Some("Sorted.".into());
    snapshot
}

fn sealed(snapshot: Snapshot) -> Document {
    let sealed = seal::seal(snapshot, &mut |_| {}).unwrap();
    read::document(serde_json::to_value(sealed).unwrap()).unwrap()
}

fn is_valid(value: &Value) -> bool {
    let schema = serde_json::from_str(schema::SCHEMA).unwrap();
    let options = jsonschema::options().should_validate_formats(true);
    options.build(&schema).unwrap().is_valid(value)
}

/// A possible file of another program: placeholders, an id that is not a UUID.
fn foreign() -> Value {
    json!({
        "snapshot_id": "snap-042-sample",
        "workflow_id": "paint-7",
        "version": "1.0",
        "captured_at": "2026-03-01T08:30:15Z",
        "config": { "model": { "id": "big-3", "provider": "acme" }, "execution_mode": "strict",
                    "temperature": 0, "seed": 7, "max_tokens": 512 },
        "agent": { "name": "Painter", "tools": ["Read", "Edit"] },
        "inputs": { "user_prompt": "Paint the door", "user_prompt_hash": "qrs777...",
                    "context_files": [{ "path": "doors.md", "hash": "tuv...", "size_bytes": 9 }] },
        "outputs": { "response": "Painted it.", "response_hash": "wxy...",
                     "artifacts_created": [{ "path": "a.yaml", "hash": "z...", "operation": "created" }] },
        "metrics": { "tool_calls_count": 5 },
        "replay_status": { "replayed": false, "replay_count": 0, "match_status": "not_replayed" },
        "mood": "fine",
    })
}

#[test]
fn hashes_have_the_values_of_the_vectors() {
    for (text, hash) in [
        (
            "",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ),
        (
            "Implement checkpoint recovery system",
            "3a6a75ad746286d757abf6d57407ae3bdf5d7b705d8fb3d5ae319e893dba16be",
        ),
    ] {
        assert_eq!(hash_text(text), format!("sha256:{hash}"));
    }
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    for (text, canonical, hash) in [
        (
            r#"{"b":[true,null,1.5,"é"],"a":1}"#,
            r#"{"a":1,"b":[true,null,1.5,"é"]}"#,
            "d98d4edcd0745fc14d417cebd197dadd464bb5f9d8a88de4a54f57a2ef5e6bd8",
        ),
        (
            r#""ok""#,
            r#""ok""#,
            "c48b5b1a9776c84602de2306d7903a7241158a5077e7a8519af75c33441b8334",
        ),
        (
            r#"{"n":1e10,"cmd":"ls"}"#,
            r#"{"cmd":"ls","n":10000000000}"#,
            "a1411231f3df4a1c55d02f22e2a70e71c808cca78d13a286c65c6bee29044b61",
        ),
    ] {
        assert_eq!(canonical_json(&read(text)), canonical);
        assert_eq!(hash_json(&read(text)), format!("sha256:{hash}"));
    }
    // Beyond 2^53 neighbours stay apart.
    assert_ne!(
        hash_json(&json!(9_007_199_254_740_992_u64)),
        hash_json(&json!(9_007_199_254_740_993_u64))
    );
    assert_eq!(canonical_json(&json!(-0.0)), "0");
}

#[test]
fn a_hash_may_be_written_without_its_prefix_and_in_capitals() {
    let hash = hash_text("x");
    let bare = hash.trim_start_matches("sha256:").to_uppercase();
    assert!(same(&hash, &bare));
    assert!(!same(&hash, &hash_text("y")));
    assert_eq!(digest("ghi..."), None);
    assert!(same("ghi...", "ghi...") && !same("ghi...", &hash));
}

#[test]
fn a_file_of_others_loads_with_warnings() {
    let document = read::document(foreign()).unwrap();
    let odd = document
        .warnings
        .iter()
        .map(|odd| (odd.path.as_str(), odd.code));
    assert_eq!(
        odd.collect::<Vec<_>>(),
        [
            ("/snapshot_id", "id_not_uuid"),
            ("/inputs/user_prompt_hash", "hash_malformed"),
            ("/inputs/context_files/0/hash", "hash_malformed"),
            ("/outputs/response_hash", "hash_malformed"),
            ("/outputs/artifacts_created/0/hash", "hash_malformed"),
        ]
    );
    assert_eq!(document.snapshot.config.execution_mode, Mode::Strict);
    // The types preserve every member.
    let again = serde_json::to_value(&document.snapshot).unwrap();
    assert_eq!(canonical_json(&again), canonical_json(&foreign()));
    assert!(
        seal::check(&document)
            .iter()
            .all(|found| !found.is_error || found.code == seal::NOT_SEALED)
    );
    assert!(!is_valid(&foreign()), "its id is no UUID");
}

#[test]
fn words_of_related_formats_are_understood() {
    let mut value = foreign();
    value["config"]["execution_mode"] = "audit".into();
    value["config"]["seed"] = "strict-mode".into();
    let document = read::document(value.clone()).unwrap();
    let config = &document.snapshot.config;
    assert_eq!(config.execution_mode, Mode::Strict);
    assert_eq!(config.seed, Some(read::seed_of("strict-mode")));
    assert!((0..1 << 53).contains(&config.seed.unwrap()));
    let extensions = document.snapshot.extensions.unwrap();
    assert_eq!(extensions.mode_label.as_deref(), Some("audit"));
    assert_eq!(extensions.seed_label.as_deref(), Some("strict-mode"));
    assert_eq!(document.raw, value, "what stands in the file is kept");
    value["config"]["seed"] = "42".into();
    assert_eq!(
        read::document(value).unwrap().snapshot.config.seed,
        Some(42)
    );
}

#[test]
fn documents_that_are_not_snapshots_are_rejected() {
    let code = |value: Value| read::document(value).unwrap_err().code;
    let without = |name: &str| {
        let mut value = foreign();
        value.as_object_mut().unwrap().remove(name);
        value
    };
    let with = |name: &str, member: Value| {
        let mut value = foreign();
        value[name] = member;
        value
    };
    assert_eq!(code(json!([])), "not_a_snapshot");
    for name in [
        "snapshot_id",
        "workflow_id",
        "captured_at",
        "config",
        "inputs",
        "outputs",
    ] {
        assert_eq!(code(without(name)), "not_a_snapshot", "{name}");
    }
    assert_eq!(code(with("version", json!("2.0"))), "unknown_version");
    assert_eq!(code(with("version", json!(1))), "unknown_version");
    assert_eq!(code(with("snapshot_id", json!(""))), "not_a_snapshot");
    assert_eq!(code(with("captured_at", json!("soon"))), "not_a_snapshot");
    assert_eq!(
        read::read(b"{\"a\":1,\"a\":2}").unwrap_err().code,
        "not_json"
    );
    assert_eq!(
        read::read(b"{\"snapshot_id\":\"half").unwrap_err().code,
        "not_json"
    );
}

#[test]
fn written_snapshots_are_valid_sealed_and_ordered() {
    let mut snapshot = snapshot();
    snapshot.agent = Some(Agent {
        tools: Some(vec!["b".into(), "a".into(), "b".into()]),
        ..Agent::default()
    });
    let document = sealed(snapshot);
    assert!(is_valid(&document.raw));
    assert_eq!(
        (&document.warnings, seal::check(&document)),
        (&vec![], vec![])
    );
    let snapshot = &document.snapshot;
    assert_eq!(snapshot.outputs.response_hash, Some(hash_text("Sorted.")));
    assert_eq!(
        snapshot.agent.as_ref().unwrap().tools,
        Some(vec!["a".into(), "b".into()])
    );
    let text = serde_json::to_string(snapshot).unwrap();
    assert!(
        text.starts_with("{\"snapshot_id\":"),
        "in the order of the schema: {text}"
    );
}

#[test]
fn replays_may_change_and_nothing_else() {
    let mut document = sealed(snapshot());
    let attempt = attempt("2026-03-02T00:00:00.000Z", MatchStatus::ExactMatch, true);
    let replays = document.snapshot.replays().after(&attempt, 1);
    document.raw["replay_status"] = serde_json::to_value(&replays).unwrap();
    let again = read::document(document.raw.clone()).unwrap();
    assert_eq!(seal::check(&again), []);
    assert_eq!((replays.replay_count, replays.replayed), (1, true));
    for path in [
        "/outputs/response",
        "/workflow_id",
        "/captured_at",
        "/extensions/environment_hash",
    ] {
        let mut changed = document.raw.clone();
        match changed.pointer_mut(path) {
            Some(text) => *text = "2026-03-01T08:30:16.250Z".into(),
            None => changed["extensions"]["note"] = true.into(),
        }
        let found = seal::check(&read::document(changed).unwrap());
        assert!(
            found
                .iter()
                .any(|found| found.code == "integrity" && found.is_error),
            "{path}"
        );
    }
}

#[test]
fn contradictions_are_found() {
    let codes = |value: Value| {
        let found = seal::check(&read::document(value).unwrap());
        let is_meant = |found: &seal::Finding| found.is_error && found.code != seal::NOT_SEALED;
        let errors = found.into_iter().filter(is_meant);
        errors.map(|found| found.code).collect::<Vec<_>>()
    };
    let mut value = foreign();
    value["outputs"]["response_hash"] = hash_text("Painted it!").into();
    assert_eq!(codes(value), ["hash_mismatch"]);
    let mut value = foreign();
    value["outputs"]["tool_calls"] = json!([{ "tool": "Edit" }]);
    assert_eq!(codes(value), ["count_mismatch"]);
    for status in [
        json!({ "replayed": true }),
        json!({ "replayed": true, "replay_count": 1, "match_status": "no_match" }),
        json!({ "replayed": false, "match_status": "exact_match" }),
        json!({ "replayed": true, "replay_count": 1, "match_status": "no_match", "last_replay": "x" }),
    ] {
        let mut value = foreign();
        value["replay_status"] = status;
        assert_eq!(codes(value), ["replay_status"]);
    }
}

#[test]
fn secrets_go_before_anything_is_hashed() {
    let mut redact = |value: &mut Value| {
        let text = value.to_string().replace("rakes", "[REDACTED:tool]");
        *value = serde_json::from_str(&text).unwrap();
    };
    let sealed = seal::seal(snapshot(), &mut redact).unwrap();
    let prompt = sealed.inputs.user_prompt.as_deref();
    assert_eq!(prompt, Some("Sort the [REDACTED:tool]"));
    assert_eq!(sealed.inputs.user_prompt_hash, prompt.map(hash_text));
}

#[test]
fn hashes_alone_are_kept_where_that_is_asked() {
    let mut snapshot = snapshot();
    snapshot.extend().content = Some(super::document::Content::HashesOnly);
    let sealed = seal::seal(snapshot, &mut |_| {}).unwrap();
    assert_eq!(
        (sealed.inputs.user_prompt, sealed.outputs.response),
        (None, None)
    );
    assert_eq!(sealed.outputs.response_hash, Some(hash_text("Sorted.")));
}

#[test]
fn file_names_are_plain_and_tell_ids_apart() {
    let name = |id: &str| naming::stem(id, at("2026-01-25T15:00:00.123Z"));
    assert_eq!(
        name("flow-implement-112"),
        "flow-implement-112-2026-01-25T15-00-00-123Z"
    );
    let odd: Vec<String> = [
        "a/b",
        "a_b",
        "a:b",
        "../../x",
        "",
        "NUL",
        "latest",
        &"x".repeat(300),
    ]
    .iter()
    .map(|id| naming::part(id))
    .collect();
    for (index, part) in odd.iter().enumerate() {
        assert!(
            !part.starts_with('.') && !part.contains('/') && part.len() <= 109,
            "{part}"
        );
        assert!(!odd[..index].contains(part), "{part}");
    }
    assert!(odd[0].starts_with("a_b~") && odd[1] == "a_b");
}

fn attempt(at: &str, status: MatchStatus, pass: bool) -> Attempt {
    serde_json::from_value(json!({
        "attempt": 1, "at": at, "kind": "model", "status": status, "pass": pass,
    }))
    .unwrap()
}

#[test]
fn snapshots_are_kept_to_the_second() {
    let captured = at("2026-01-01T00:00:00.000Z");
    let replayed = |last: &str, status| ReplayStatus {
        replayed: true,
        replay_count: 1,
        last_replay: Some(last.into()),
        match_status: status,
        ..ReplayStatus::default()
    };
    let check = |replays: &ReplayStatus, latest: Option<&Attempt>, last: &str| {
        let facts = Facts {
            captured,
            replays,
            latest,
            is_pinned: false,
            is_needed: false,
        };
        let last = at(last);
        assert_eq!(facts.verdict(last), Verdict::Until(last));
        assert_eq!(facts.verdict(last.plus_ms(1)), Verdict::Expired(last));
        assert_eq!(
            facts.verdict(Timestamp(captured.0 - 1)),
            Verdict::ClockBehind
        );
        for (is_pinned, is_needed, expected) in [
            (true, true, Verdict::Pinned),
            (false, true, Verdict::Needed),
        ] {
            let kept = Facts {
                is_pinned,
                is_needed,
                ..facts
            };
            assert_eq!(kept.verdict(last.plus_ms(1)), expected);
        }
    };
    let day_90 = "2026-04-01T00:00:00.000Z";
    let last = "2026-02-01T12:00:00.000Z";
    let day_180 = "2026-07-31T12:00:00.000Z";
    check(&ReplayStatus::default(), None, day_90);
    check(&replayed(last, MatchStatus::NoMatch), None, day_180);
    check(&replayed(last, MatchStatus::PartialMatch), None, day_180);
    check(&replayed(last, MatchStatus::SemanticMatch), None, day_90);
    // By the strategy of the attempt, where it is known.
    let passed = attempt(last, MatchStatus::PartialMatch, true);
    check(
        &replayed(last, MatchStatus::PartialMatch),
        Some(&passed),
        day_90,
    );
    let failed = attempt(last, MatchStatus::SemanticMatch, false);
    check(
        &replayed(last, MatchStatus::SemanticMatch),
        Some(&failed),
        day_180,
    );
    let older = attempt(
        "2026-01-02T00:00:00.000Z",
        MatchStatus::SemanticMatch,
        false,
    );
    check(
        &replayed(last, MatchStatus::SemanticMatch),
        Some(&older),
        day_90,
    );
    // An earlier failure shortens nothing.
    check(
        &replayed("2025-01-01T00:00:00.000Z", MatchStatus::NoMatch),
        None,
        day_90,
    );
}

#[test]
fn an_attempt_that_was_given_up_changes_no_status() {
    let before = ReplayStatus::default();
    let mut given_up = attempt("2026-03-02T00:00:00.000Z", MatchStatus::NoMatch, false);
    given_up.status = None;
    assert_eq!(before.after(&given_up, 0), before);
    assert!(!given_up.has_failed());
    assert!(before.is_consistent());
}

/// A comparison, and its resulting status.
type Row = (&'static str, Level, f64, [Field; 2], Option<MatchStatus>);

/// One row for each rule of the ladder, and one for each of its consequences.
#[test]
fn every_rung_of_the_ladder_holds() {
    use Level::{Different, Equivalent, Identical, SameShape, Unavailable};
    let field = |level| Field {
        level,
        is_empty: false,
    };
    let empty = Field {
        level: Identical,
        is_empty: true,
    };
    let none = field(Unavailable);
    let exact = Some(MatchStatus::ExactMatch);
    let semantic = Some(MatchStatus::SemanticMatch);
    let partial = Some(MatchStatus::PartialMatch);
    let no = Some(MatchStatus::NoMatch);
    let rows: &[Row] = &[
        (
            "1 no response",
            Unavailable,
            0.0,
            [field(Identical); 2],
            None,
        ),
        (
            "2 everything identical",
            Identical,
            1.0,
            [field(Identical), empty],
            exact,
        ),
        (
            "2 what is missing takes no part",
            Identical,
            1.0,
            [none; 2],
            exact,
        ),
        (
            "3 equivalent response",
            Equivalent,
            1.0,
            [field(Identical), empty],
            semantic,
        ),
        (
            "3 equivalent field",
            Identical,
            1.0,
            [field(Equivalent), none],
            semantic,
        ),
        (
            "4 a field of the same shape",
            Different,
            0.0,
            [field(SameShape), none],
            partial,
        ),
        ("4 half of the units", Different, 0.5, [none; 2], partial),
        (
            "5 less than half",
            Different,
            0.49,
            [field(Different), none],
            no,
        ),
        (
            "identical response, other artifacts",
            Identical,
            1.0,
            [field(Different), none],
            partial,
        ),
        (
            "other response, identical artifacts",
            Different,
            0.0,
            [field(Identical), none],
            partial,
        ),
        (
            "other response, both lists empty",
            Different,
            0.0,
            [empty; 2],
            no,
        ),
        (
            "the same structure alone",
            SameShape,
            0.0,
            [empty; 2],
            partial,
        ),
        ("both responses empty", Identical, 1.0, [empty; 2], exact),
    ];
    for (name, response, matching_units, fields, expected) in rows {
        let compared = Compared {
            response: *response,
            matching_units: *matching_units,
            fields,
        };
        assert_eq!(compared.status(), *expected, "{name}");
        let passes = [By::Exact, By::Semantic].map(|by| compared.passes(by));
        assert_eq!(
            passes,
            [
                *expected == exact,
                *expected == exact || *expected == semantic
            ]
        );
    }
    let compared = |response, level| {
        let fields = [field(level), empty];
        let compared = Compared {
            response,
            matching_units: 0.0,
            fields: &fields,
        };
        compared.passes(By::Structural)
    };
    assert!(compared(SameShape, SameShape) && compared(Identical, Unavailable));
    assert!(!compared(SameShape, Different) && !compared(Different, Identical));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn order_of_keys_and_white_space_never_change_a_hash(
        entries in prop::collection::btree_map("[a-z\u{e000}\u{1f600}]{0,3}", -1e6..1e6, 0..6),
    ) {
        let member = |(key, number): (&String, &f64)| format!("{} : {number:?}", json!(key));
        let forth: Vec<String> = entries.iter().map(member).collect();
        let back: Vec<String> = entries.iter().rev().map(member).collect();
        let value = |members: Vec<String>, glue| {
            serde_json::from_str::<Value>(&format!("{{{}}}", members.join(glue))).unwrap()
        };
        prop_assert_eq!(hash_json(&value(forth, ",")), hash_json(&value(back, "\n ,\t")));
    }
}

#[test]
fn whole_numbers_may_be_written_with_a_point() {
    let mut value = serde_json::to_value(snapshot()).unwrap();
    value["config"]["max_tokens"] = json!(4096.0);
    value["config"]["seed"] = json!(7.0);
    value["inputs"]["context_files"] = json!([{ "path": "doors.md", "size_bytes": 9.0 }]);
    value["metrics"] = json!({ "duration_ms": 12.0, "tool_calls_count": 0.0 });
    value["replay_status"] = json!({ "replayed": false, "replay_count": 0.0 });
    let read = read::document(value.clone()).unwrap();
    let config = &read.snapshot.config;
    assert_eq!((config.max_tokens, config.seed), (Some(4096), Some(7)));
    assert_eq!(read.raw, value, "it stays as it was written");
    assert!(is_valid(&value), "JSON Schema calls it an integer");
    for none in [json!(4096.5), json!(1e300)] {
        value["config"]["max_tokens"] = none;
        assert_eq!(
            read::document(value.clone()).unwrap_err().code,
            "not_a_snapshot"
        );
    }
}

#[test]
fn extensions_of_another_tool_are_left_as_they_are() {
    for theirs in [
        json!({ "name": { "first": "a" } }),
        json!({ "git": "main" }),
        json!([1]),
        json!("x"),
    ] {
        let mut value = foreign();
        value["extensions"] = theirs.clone();
        let read = read::document(value.clone()).unwrap();
        assert_eq!(read.snapshot.extensions, None, "{theirs}");
        let odd = read
            .warnings
            .iter()
            .any(|odd| odd.code == "extensions_unknown");
        assert!(odd && read.raw == value, "{theirs}");
    }
    let mut value = foreign();
    value["extensions"] = json!({ "started_at": AT, "of_theirs": { "a": [1.0] } });
    let read = read::document(value).unwrap();
    assert!(
        read.snapshot
            .extensions
            .is_some_and(|more| more.other.contains_key("of_theirs"))
    );
}
