//! The result of a process: the result file, else a JSON object in the last line of its output,
//! else references in its text.

use std::collections::BTreeMap;
use std::path::Path;

use kernel::limits::MAX_COUNT;
use kernel::run::{Completion, NodeError, Usage};
use regex_automata::meta::Regex;
use serde_json::{Map, Value, json};

/// Bytes of a result.
pub(super) const MAX_RESULT: usize = 1 << 20;
/// The most files taken from a text.
const MAX_ARTIFACTS: usize = 100;
/// Words of a `status` that mean failure, in lower case.
const FAILED: [&str; 8] = [
    "failed",
    "failure",
    "fail",
    "error",
    "aborted",
    "cancelled",
    "canceled",
    "timeout",
];
/// Keys that identify an object in the last line as a result; a reported failure needs none of
/// them.
const KEYS: [&str; 7] = [
    "session_id",
    "output_path",
    "artifacts",
    "output",
    "result",
    "cost",
    "total_cost_usd",
];

/// The parsed result of a process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessResult {
    object: Option<Map<String, Value>>,
    session_id: Option<String>,
    output_path: Option<String>,
    artifacts: Vec<String>,
}

impl ProcessResult {
    /// Parses the result file, if there is one, and standard output.
    ///
    /// # Errors
    /// A result file that is not a JSON object, or is too large.
    pub fn read(file: Option<&[u8]>, stdout: &str, project: &Path) -> Result<Self, NodeError> {
        let object = match file.filter(|bytes| !bytes.trim_ascii().is_empty()) {
            Some(bytes) => Some(read_file(bytes)?),
            None => last_line(stdout),
        };
        let mut said = if object.is_some() {
            Self::default()
        } else {
            mentioned(stdout, project)
        };
        if let Some(object) = &object {
            let text = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
            said.session_id = text("session_id");
            said.output_path = text("output_path");
            let list = object.get("artifacts").and_then(Value::as_array);
            let list = list.into_iter().flatten().filter_map(Value::as_str);
            said.artifacts = list.map(str::to_owned).collect();
        }
        said.object = object;
        Ok(said)
    }

    /// Whether there is an explicit result, in addition to references in the text.
    pub fn is_result(&self) -> bool {
        self.object.is_some()
    }

    /// The reported failure of the work, if its process succeeded.
    pub fn failure(&self) -> Option<NodeError> {
        let object = self.object.as_ref().filter(|object| has_failed(object))?;
        let why = ["error", "message", "output", "result", "reason"];
        let why = why.iter().find_map(|key| reason(object.get(*key)?));
        let why = why.unwrap_or_else(|| "its result reports a failure".to_owned());
        Some(NodeError::new("work_failed", why))
    }

    /// The reported usage.
    pub fn used(&self, provider: &str) -> (Vec<Usage>, BTreeMap<String, u64>) {
        let Some(object) = &self.object else {
            return Default::default();
        };
        let cost = object.get("cost").or_else(|| object.get("total_cost_usd"));
        let (details, usd) = match cost {
            Some(Value::Object(cost)) => (Some(cost), cost.get("usd").and_then(Value::as_f64)),
            Some(number) => (None, number.as_f64()),
            None => (None, None),
        };
        let usage = object.get("usage").and_then(Value::as_object);
        let details = details.or(usage);
        let usd = usd.filter(|usd| usd.is_finite() && *usd >= 0.0);
        let count = |key: &str| details?.get(key)?.as_u64().map(|n| n.min(MAX_COUNT));
        let (input, output) = (count("input_tokens"), count("output_tokens"));
        if usd.is_none() && input.is_none() && output.is_none() {
            return Default::default();
        }
        let text = |key: &str| details?.get(key)?.as_str().map(str::to_owned);
        let usage = Usage {
            provider: text("provider").unwrap_or_else(|| provider.to_owned()),
            model: text("model").unwrap_or_else(|| "unknown".to_owned()),
            input_tokens: input.unwrap_or(0),
            output_tokens: output.unwrap_or(0),
            cache_read_tokens: count("cache_read_input_tokens"),
            cache_write_tokens: count("cache_creation_input_tokens"),
            cost_estimate_usd: usd,
            duration_ms: None,
        };
        let mut spent = BTreeMap::new();
        if let Some(usd) = usd {
            spent.insert("costMicroUsd".to_owned(), (usd * 1e6).ceil() as u64);
        }
        let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
        if tokens > 0 {
            spent.insert("tokens".to_owned(), tokens);
        }
        (vec![usage], spent)
    }

    /// The outputs of the node. `own` is its default output file, used if it names none.
    pub fn completion(&self, stdout: String, is_cut: bool, own: Option<String>) -> Completion {
        let object = self.object.as_ref();
        let told = object.and_then(|object| object.get("output").or_else(|| object.get("result")));
        let output = match told {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None if is_cut => format!("{stdout}\n[cut here; the log file has the rest]"),
            None => stdout,
        };
        let outputs = json!({
            "session_id": self.session_id.clone().unwrap_or_default(),
            "output_path": self.output_path.clone().or(own).unwrap_or_default(),
            "artifacts": self.artifacts,
            "output": output,
        });
        Completion {
            outputs: outputs.as_object().cloned().unwrap_or_default(),
            ..Completion::default()
        }
    }
}

fn read_file(bytes: &[u8]) -> Result<Map<String, Value>, NodeError> {
    let refuse = |what: String| {
        let text = format!("the file WF_RESULT_FILE of the process {what}");
        NodeError::new("result_unreadable", text)
    };
    if bytes.len() > MAX_RESULT {
        return Err(refuse(format!("has more than {MAX_RESULT} bytes")));
    }
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(refuse("is not a JSON object".into())),
        Err(error) => Err(refuse(format!("is not a JSON object: {error}"))),
    }
}

fn last_line(stdout: &str) -> Option<Map<String, Value>> {
    let line = stdout.trim_end().lines().next_back()?.trim();
    if !line.starts_with('{') || line.len() > MAX_RESULT {
        return None;
    }
    let Ok(Value::Object(object)) = serde_json::from_str(line) else {
        return None;
    };
    let is_result = has_failed(&object) || KEYS.iter().any(|key| object.contains_key(*key));
    is_result.then_some(object)
}

/// Whether a result reports failure: by `status`, `is_error` or `success`.
fn has_failed(object: &Map<String, Value>) -> bool {
    let flag = |key: &str| object.get(key).and_then(Value::as_bool);
    let status = object.get("status").and_then(Value::as_str);
    let status = status.map(|word| word.trim().to_ascii_lowercase());
    flag("is_error") == Some(true)
        || flag("success") == Some(false)
        || status.is_some_and(|word| FAILED.contains(&word.as_str()))
}

/// A readable error: a text, or the message of an object.
fn reason(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Object(error) => match error.get("message").and_then(Value::as_str) {
            Some(message) => message.to_owned(),
            None => value.to_string(),
        },
        Value::Null | Value::Bool(_) => return None,
        other => other.to_string(),
    };
    (!text.trim().is_empty()).then_some(text)
}

/// References in a text: a session id, and existing files.
fn mentioned(text: &str, project: &Path) -> ProcessResult {
    let mut said = ProcessResult::default();
    if let Ok(id) = Regex::new(r"\b[A-Z]{2,4}(?:-[a-z0-9]+)+-\d{8}(?:-\d{6})?\b") {
        let behind = text.find("Session:").and_then(|at| {
            let line = text[at + "Session:".len()..].lines().next()?;
            id.find(line).map(|found| line[found.range()].to_owned())
        });
        said.session_id =
            behind.or_else(|| id.find(text).map(|found| text[found.range()].to_owned()));
    }
    let Ok(path) = Regex::new(r"[\w./@+-]*[\w-]\.\w{1,8}\b") else {
        return said;
    };
    for found in path.find_iter(text) {
        let file = &text[found.range()];
        let is_new = !said.artifacts.iter().any(|known| known == file);
        if !is_file_of(project, file) {
            continue;
        }
        if file.ends_with(".md") || file.ends_with(".json") {
            said.output_path = Some(file.to_owned());
        }
        if is_new && said.artifacts.len() < MAX_ARTIFACTS {
            said.artifacts.push(file.to_owned());
        }
    }
    said
}

/// Whether a path is a file of the project.
fn is_file_of(project: &Path, file: &str) -> bool {
    let path = project.join(file);
    let is_inside = path
        .canonicalize()
        .is_ok_and(|real| real.starts_with(project));
    is_inside && path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(file: Option<&str>, stdout: &str) -> ProcessResult {
        ProcessResult::read(file.map(str::as_bytes), stdout, Path::new("/nowhere")).unwrap()
    }

    #[test]
    fn the_file_outranks_the_last_line_and_that_the_text() {
        let text = "Session: WFS-user-auth-20260317 is done";
        assert_eq!(
            said(None, text).session_id.as_deref(),
            Some("WFS-user-auth-20260317")
        );
        let line = format!("{text}\n{{\"session_id\":\"s1\",\"output\":\"o\"}}\n");
        assert_eq!(said(None, &line).session_id.as_deref(), Some("s1"));
        let both = said(Some("{\"session_id\":\"s2\"}"), &line);
        assert_eq!(both.session_id.as_deref(), Some("s2"));
        let outputs = both.completion("all of it".into(), false, None).outputs;
        assert_eq!(outputs["output"], "all of it");
        let outputs = said(None, &line)
            .completion(line.clone(), false, None)
            .outputs;
        assert_eq!(outputs["output"], "o");
    }

    #[test]
    fn a_line_that_is_not_a_result_is_text() {
        for text in ["{\"a\": 1}", "{", "[]", "done", ""] {
            assert!(!said(None, text).is_result(), "{text}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error() {
        for bad in ["[1]", "{\"a\":"] {
            let error = ProcessResult::read(Some(bad.as_bytes()), "", Path::new("/")).unwrap_err();
            assert_eq!(error.code, "result_unreadable");
        }
        assert!(!said(Some(" \n"), "").is_result());
    }

    #[test]
    fn files_that_are_there_are_artifacts() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().canonicalize().unwrap();
        std::fs::create_dir(project.join("docs")).unwrap();
        for file in ["docs/plan.md", "a.rs"] {
            std::fs::write(project.join(file), "").unwrap();
        }
        let text = "wrote docs/plan.md, a.rs and gone.md; see /etc/passwd, ../x.md, 1.5 and a.rs.";
        let said = ProcessResult::read(None, text, &project).unwrap();
        assert_eq!(said.artifacts, ["docs/plan.md", "a.rs"]);
        assert_eq!(said.output_path.as_deref(), Some("docs/plan.md"));
    }

    #[test]
    fn usage_is_counted_in_each_known_form() {
        let used = |text: &str| said(Some(text), "").used("claude");
        let (usage, spent) = used(r#"{"cost": 0.25}"#);
        assert_eq!(usage[0].cost_estimate_usd, Some(0.25));
        assert_eq!(spent["costMicroUsd"], 250_000);
        let (usage, spent) =
            used(r#"{"cost": {"usd": 1, "input_tokens": 3, "output_tokens": 4, "model": "m"}}"#);
        assert_eq!((usage[0].model.as_str(), spent["tokens"]), ("m", 7));
        let (usage, _) = used(
            r#"{"result": "x", "total_cost_usd": 0.5, "usage": {"input_tokens": 9, "output_tokens": 1}}"#,
        );
        assert_eq!(
            (usage[0].provider.as_str(), usage[0].input_tokens),
            ("claude", 9)
        );
        assert_eq!(used(r#"{"output": "x"}"#), Default::default());
    }

    #[test]
    fn work_may_fail_although_its_process_did_not() {
        let failure = |text: &str| said(Some(text), "").failure().map(|error| error.message);
        assert_eq!(
            failure(r#"{"status":"failed","error":"no"}"#).as_deref(),
            Some("no")
        );
        assert_eq!(
            failure(r#"{"is_error":true,"result":"no"}"#).as_deref(),
            Some("no")
        );
        assert_eq!(failure(r#"{"status":"completed"}"#), None);
    }

    #[test]
    fn a_last_line_that_says_failed_is_a_failure() {
        let failure = |line: &str| {
            let stdout = format!("working\n{line}\n");
            said(None, &stdout).failure().map(|error| error.message)
        };
        for (line, why) in [
            (r#"{"status":"failed","error":"no disk"}"#, "no disk"),
            (r#"{"status":"Failed"}"#, "its result reports a failure"),
            (r#"{"status":"error","message":"no"}"#, "no"),
            (
                r#"{"status":"failed","error":{"message":"m","code":1}}"#,
                "m",
            ),
            (r#"{"status":"failed","error":{"code":1}}"#, r#"{"code":1}"#),
            (r#"{"is_error":true,"result":"limit"}"#, "limit"),
            (r#"{"success":false,"error":"","reason":"r"}"#, "r"),
        ] {
            assert_eq!(failure(line).as_deref(), Some(why), "{line}");
        }
        for line in [
            r#"{"status":"completed"}"#,
            r#"{"status":"failed to open"}"#,
            r#"{"level":"error","error":"x"}"#,
            r#"[{"status":"failed"}]"#,
        ] {
            assert_eq!(failure(line), None, "{line}");
        }
    }
}
