//! Derives the outcome of a task from the end of its program.

use std::io::ErrorKind;
use std::path::Path;

use kernel::coordinator::TaskError;
use kernel::limits::{MAX_ERROR_MESSAGE_BYTES, MAX_TASK_RESULT_BYTES};
use runtime::named_file;
use runtime::supervisor::{End, Finish};
use serde_json::{Map, Value};

use super::output::Output;

/// Bytes of standard error's end in a failure's message.
const TAIL: usize = 1_024;
/// Maximum bytes of plain output in a result.
const MAX_TEXT: usize = 256 << 10;
/// Bytes of the same as JSON, where control characters are longer: half of a result, so that masks
/// for secrets fit, too.
const MAX_WRITTEN: usize = MAX_TASK_RESULT_BYTES / 2;

/// A failure with its message cut to the limit.
pub(super) fn failure(code: &str, message: impl Into<String>) -> TaskError {
    let mut message = message.into();
    message.truncate(message.floor_char_boundary(MAX_ERROR_MESSAGE_BYTES));
    TaskError {
        code: code.to_owned(),
        message,
        retryable: None,
    }
}

/// The result of an ended program.
pub(super) fn conclude(
    finish: Finish,
    [stdout, stderr]: &[Output; 2],
    result: &Path,
) -> Result<Map<String, Value>, TaskError> {
    let end = end_of(finish)?;
    let said = said(stdout, result)?;
    if end == (End::Exited { code: 0 }) {
        let result = said.unwrap_or_else(|| {
            let text = String::from_utf8_lossy(&stdout.kept);
            let text = beginning(text.trim_end());
            Map::from_iter([("stdout".to_owned(), Value::from(text))])
        });
        // The server may format numbers longer than the file: 1e15 is 1000000000000000.0.
        return match Value::Object(result.clone()).to_string().len() {
            0..=MAX_TASK_RESULT_BYTES => Ok(result),
            _ => Err(too_large()),
        };
    }
    if let Some(error) = said.as_ref().and_then(|said| said.get("error")) {
        let code = error["code"].as_str().filter(|code| is_code(code));
        if let (Some(code), Some(message)) = (code, error["message"].as_str()) {
            return Err(TaskError {
                retryable: error["retryable"].as_bool(),
                ..failure(code, message)
            });
        }
    }
    let (code, what) = words(end);
    Err(with_tail(code, what, stderr))
}

/// The end of a program that was observed to its end.
pub(super) fn end_of(finish: Finish) -> Result<End, TaskError> {
    match finish {
        Finish::Ended(record) | Finish::Adopted(record) => Ok(record.end),
        Finish::NotStarted { message, .. } => Err(failure("program_not_started", message)),
        Finish::Stopped => Err(failure("stopped", "the program was stopped")),
        Finish::OutputLost(why) => Err(failure("output_lost", why)),
        Finish::SupervisorLost => Err(failure("supervisor_lost", "the program's supervisor ended")),
    }
}

/// The code of an end, and its description.
pub(super) fn words(end: End) -> (&'static str, String) {
    match end {
        End::Exited { code } => ("exit_code", format!("the program ended with code {code}")),
        End::Signaled { signal } => ("signal", format!("signal {signal} ended the program")),
        End::TimedOut { .. } => ("timed_out", "the program took too long".to_owned()),
        End::BoundPassed { used } => ("process_bound_passed", format!("the program used {used}")),
    }
}

/// A failure with the end of standard error in its message.
pub(super) fn with_tail(code: &str, what: String, stderr: &Output) -> TaskError {
    let tail = &stderr.kept[stderr.kept.len().saturating_sub(TAIL)..];
    let tail = String::from_utf8_lossy(tail);
    match tail.trim() {
        "" => failure(code, what),
        tail => failure(code, format!("{what}: {tail}")),
    }
}

/// A text cut to the limit of plain output in a result.
fn beginning(text: &str) -> &str {
    let (mut bytes, mut written) = (0, 0);
    for char in text.chars() {
        bytes += char.len_utf8();
        written += match char {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..'\u{20}' => 6,
            _ => char.len_utf8(),
        };
        if bytes > MAX_TEXT || written > MAX_WRITTEN {
            return &text[..bytes - char.len_utf8()];
        }
    }
    text
}

/// The failure of a task whose result exceeds the limit.
pub(super) fn too_large() -> TaskError {
    let text = format!("the result has more than {MAX_TASK_RESULT_BYTES} bytes");
    TaskError {
        retryable: Some(false),
        ..failure("result_too_large", text)
    }
}

fn is_code(code: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    (1..=64).contains(&code.len()) && code.bytes().all(is_plain)
}

fn unreadable() -> TaskError {
    failure(
        "result_unreadable",
        "the result file does not hold a JSON object",
    )
}

/// The JSON object of a program: from its result file, else from its output.
fn said(stdout: &Output, result: &Path) -> Result<Option<Map<String, Value>>, TaskError> {
    match named_file::read(result, MAX_TASK_RESULT_BYTES) {
        Ok(bytes) => {
            return match serde_json::from_slice(&bytes) {
                Ok(Value::Object(object)) => Ok(Some(object)),
                _ => Err(unreadable()),
            };
        }
        Err(error) if error.kind() == ErrorKind::FileTooLarge => return Err(too_large()),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(unreadable()),
        Err(_) if stdout.is_cut => return Ok(None),
        Err(_) => {}
    }
    match serde_json::from_slice(&stdout.kept) {
        Ok(Value::Object(object)) => Ok(Some(object)),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_output_is_cut_where_a_result_would_be_too_large() {
        let written = |text: &str| serde_json::to_string(beginning(text)).unwrap().len() - 2;
        for (all, one) in [("a", 1), ("\n", 2), ("\"", 2), ("\0", 6), ("\u{1f}", 6)] {
            let text = all.repeat(MAX_TEXT + 1);
            let fits = MAX_TEXT.min(MAX_WRITTEN / one);
            assert_eq!(beginning(&text).len(), fits, "{all:?}");
            assert_eq!(written(&text), fits * one, "{all:?}");
        }
        assert_eq!(beginning(&"\u{e4}".repeat(MAX_TEXT)).len(), MAX_TEXT);
        assert_eq!(beginning("short\0"), "short\0");
    }
}
