//! A real small model, captured and called again.

use serde_json::{Value, json};

use super::Bench;
use super::peer::says;
use crate::models::{Model, python};

#[test]
fn a_real_model_matches_exact_kinds_and_may_differ_in_others() {
    let test = "a_real_model_matches_exact_kinds_and_may_differ_in_others";
    let Some(python) = python(test) else { return };
    let mut bench = Bench::new(|_, _| says("the scripted peer is not asked"));
    let model = Model::start(&bench.lab, &python);
    bench.peer.address.clone_from(&model.address);
    bench.script(&[json!({ "ask": "Tell a story about a boat." })]);
    bench.capture(&[
        "--mode",
        "strict",
        "--temperature",
        "0",
        "--seed",
        "7",
        "--max-tokens",
        "24",
        "--model",
        "gemma-3-270m",
    ]);
    let report = bench.replay("rerun", 0);
    assert_eq!(
        (&report["match_status"], &report["live"]["models"]),
        (&json!("exact_match"), &json!(1)),
        "{report}"
    );
    assert_eq!(bench.replay("model", 0)["match_status"], "exact_match");
    let verify = bench.replay("verify", 0);
    assert_eq!(
        (&verify["match_status"], &verify["live"]["models"]),
        (&json!("exact_match"), &json!(0))
    );

    bench.capture(&[
        "--temperature",
        "1",
        "--max-tokens",
        "64",
        "--model",
        "gemma-3-270m",
    ]);
    let args = [
        "snapshot", "replay", "latest", "--root", "shop", "--kind", "rerun", "--json",
    ];
    let differs = (0..3).any(|_| {
        let report: Value = bench.call(&args).with_any(&[0, 1, 3]).json();
        report["match_status"] != "exact_match" && report["pass"] == false
    });
    assert!(differs, "chance came to the same three times");
}
