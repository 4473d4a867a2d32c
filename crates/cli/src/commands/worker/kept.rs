//! Persistent programs: each reads one task per line and answers each with a line.

use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt;
use kernel::coordinator::TaskError;
use kernel::limits::MAX_TASK_RESULT_BYTES;
use kernel::run::event::OutputChannel;
use parking_lot::Mutex;
use runtime::supervisor::{DEFAULT_OUTPUT_LIMIT, Finish, Running, Seen, Spec, Stream};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::Worker;
use super::outcome::{end_of, failure, too_large, with_tail, words};
use super::output::Output;
use super::source::Word;
use super::task::{Cut, GRACE, Order, is_missing};

/// Maximum bytes of an answer line.
const MAX_LINE: usize = MAX_TASK_RESULT_BYTES + (64 << 10);
/// Bytes that a program writes before it is replaced: its output is kept in a file until then.
const MAX_WRITTEN: usize = 64 << 20;
/// The error code for a missing or invalid answer of a program.
const ANSWER_UNREADABLE: &str = "answer_unreadable";

/// A program's answer to a task.
type Answer = Result<Map<String, Value>, TaskError>;

/// The idle programs.
#[derive(Default)]
pub(super) struct Programs {
    // Held to put or take one, never across an await.
    idle: Mutex<Vec<Program>>,
    started: AtomicU64,
}

/// A program that runs.
struct Program {
    running: Running,
    /// Its output since its last answer.
    line: Vec<u8>,
    written: usize,
}

impl Worker<'_> {
    /// Gives a task to an idle program, or to a new one, and waits for its answer.
    pub(super) async fn ask_program(
        &self,
        order: &Order,
        programs: &Programs,
    ) -> Result<Answer, Cut> {
        let mut program = match programs.next_idle() {
            Some(program) => program,
            None => match self.start_program(programs).await {
                Ok(program) => program,
                Err(error) => return Ok(Err(failure("supervisor_failed", error.to_string()))),
            },
        };
        let mut errors = [Output::new(OutputChannel::Stderr)];
        let heard = match program.running.say(order.line().as_bytes()).await {
            Ok(()) => self.hear(order, &mut program, &mut errors).await,
            Err(error) => Ok(Heard::Useless(failure("program_gone", error.to_string()))),
        };
        let answer = match heard {
            Ok(Heard::Answer(answer)) => {
                self.send_output(order, &mut errors, true).await?;
                if program.is_fit() {
                    programs.idle.lock().push(program);
                } else {
                    program.running.stop().await;
                }
                answer
            }
            Ok(Heard::Ended(Finish::NotStarted { reason, message })) if is_missing(reason) => {
                return Err(Cut::Unable(self.cannot_start(&message)));
            }
            Ok(Heard::Ended(finish)) => {
                self.send_output(order, &mut errors, true).await?;
                Err(ended(finish, &errors[0]))
            }
            Ok(Heard::Useless(error)) => {
                self.send_output(order, &mut errors, true).await?;
                program.running.stop().await;
                Err(error)
            }
            Err(Cut::Stop) => return Err(self.stop_program(order, program.running).await),
            Err(cut) => {
                program.running.stop().await;
                return Err(cut);
            }
        };
        Ok(answer)
    }

    async fn start_program(&self, programs: &Programs) -> std::io::Result<Program> {
        let number = programs.started.fetch_add(1, Ordering::Relaxed);
        let spec = Spec {
            run: "programs".into(),
            key: format!("program-{number}").as_str().into(),
            restarts: 0,
            argv: self.command.clone(),
            env: self.own_environment(),
            cwd: self.workdir.clone(),
            stdin: Vec::new(),
            timeout: None,
            grace: GRACE,
            output_limit: DEFAULT_OUTPUT_LIMIT,
            confinement: None,
        };
        Ok(Program {
            running: self.supervisor.start_talking(spec).await?,
            line: Vec::new(),
            written: 0,
        })
    }

    /// Reads a program's output until it has answered or ended, with heartbeats meanwhile.
    async fn hear(
        &self,
        order: &Order,
        program: &mut Program,
        errors: &mut [Output; 1],
    ) -> Result<Heard, Cut> {
        let mut heartbeat = Instant::now() + order.heartbeat;
        loop {
            let due = errors[0].due().map_or(heartbeat, |due| due.min(heartbeat));
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Err(Cut::Stop),
                // Before the output: a program that never pauses must not starve the heartbeats.
                () = tokio::time::sleep_until(due) => {
                    if Instant::now() >= heartbeat {
                        heartbeat = Instant::now() + order.heartbeat;
                        self.tell(order, Word::Heartbeat).await?;
                    }
                    self.send_output(order, errors, false).await?;
                }
                seen = program.running.next() => match seen {
                    Seen::Started { .. } | Seen::Stalled | Seen::Continues => {}
                    Seen::Output(Stream::Stderr, bytes) => {
                        program.written += bytes.len();
                        errors[0].push(&bytes);
                    }
                    Seen::Output(Stream::Stdout, bytes) => {
                        program.written += bytes.len();
                        program.line.extend_from_slice(&bytes);
                        if let Some(heard) = program.heard(order) {
                            return Ok(heard);
                        }
                    }
                    Seen::Finished(finish) => return Ok(Heard::Ended(finish)),
                },
            }
        }
    }

    /// Ends the idle programs.
    pub(super) async fn stop_programs(&self, programs: &Programs) {
        let idle = std::mem::take(&mut *programs.idle.lock());
        let stops = idle.into_iter().map(|program| program.running.stop());
        futures_util::future::join_all(stops).await;
    }
}

/// The event of a program with a task.
enum Heard {
    Answer(Answer),
    Ended(Finish),
    /// It must not receive another task.
    Useless(TaskError),
}

impl Programs {
    /// An idle program that is still alive.
    fn next_idle(&self) -> Option<Program> {
        loop {
            let mut program = self.idle.lock().pop()?;
            match program.running.next().now_or_never() {
                None => return Some(program),
                Some(
                    Seen::Output(Stream::Stderr, _)
                    | Seen::Started { .. }
                    | Seen::Stalled
                    | Seen::Continues,
                ) => {
                    self.idle.lock().push(program);
                }
                // It has ended, or printed unrequested output: dropping it ends it.
                Some(Seen::Output(Stream::Stdout, _) | Seen::Finished(_)) => {}
            }
        }
    }
}

impl Program {
    /// Whether it may receive another task.
    fn is_fit(&self) -> bool {
        self.line.is_empty() && self.written < MAX_WRITTEN
    }

    /// Its answer to a task, once the line is complete.
    fn heard(&mut self, order: &Order) -> Option<Heard> {
        let Some(end) = self.line.iter().position(|byte| *byte == b'\n') else {
            let is_long = self.line.len() > MAX_LINE;
            return is_long.then(|| Heard::Useless(too_large()));
        };
        let rest = self.line.split_off(end + 1);
        let line = std::mem::replace(&mut self.line, rest);
        Some(match read(&line, &order.assignment) {
            Ok(answer) => Heard::Answer(answer),
            Err(why) => Heard::Useless(TaskError {
                retryable: Some(false),
                ..failure(ANSWER_UNREADABLE, why)
            }),
        })
    }
}

/// Parses an answer line for an assignment.
fn read(line: &[u8], assignment: &str) -> Result<Answer, String> {
    let example = format!(
        "answer with one line {{\"assignment_id\": \"{assignment}\", \"outputs\": {{…}}}}, or with \
         \"error\": {{\"code\": …, \"message\": …}} in the place of \"outputs\""
    );
    let Ok(Value::Object(mut said)) = serde_json::from_slice(line) else {
        let beginning = String::from_utf8_lossy(&line[..line.len().min(80)]);
        let beginning = kernel::problem::quoted(beginning.trim_end());
        return Err(format!("{beginning} is not a JSON object; {example}"));
    };
    if said.get("assignment_id").and_then(Value::as_str) != Some(assignment) {
        return Err(format!(
            "the answer does not name the assignment {assignment}; {example}"
        ));
    }
    match (said.remove("outputs"), said.remove("error")) {
        (Some(Value::Object(outputs)), None) => Ok(Ok(outputs)),
        (None, Some(error)) => match serde_json::from_value(error) {
            Ok(error) => Ok(Err(error)),
            Err(why) => Err(format!("the error cannot be read ({why}); {example}")),
        },
        _ => Err(format!("the answer has no outputs object; {example}")),
    }
}

/// The failure of a task whose program ended without an answer.
fn ended(finish: Finish, errors: &Output) -> TaskError {
    match end_of(finish) {
        Ok(end) => {
            let (code, what) = words(end);
            with_tail(code, format!("{what} before it answered"), errors)
        }
        Err(error) => error,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_names_its_assignment() {
        let line = |value: Value| value.to_string().into_bytes();
        let good = line(json!({ "assignment_id": "a-1", "outputs": { "n": 1 } }));
        assert_eq!(read(&good, "a-1").unwrap().unwrap()["n"], 1);
        let other = read(&good, "a-2").unwrap_err();
        assert!(other.contains("a-2"), "{other}");
        let failed =
            json!({ "assignment_id": "a-1", "error": { "code": "no", "message": "not now" } });
        assert_eq!(read(&line(failed), "a-1").unwrap().unwrap_err().code, "no");
        for bad in [
            "hello",
            r#"{"assignment_id":"a-1"}"#,
            r#"{"assignment_id":"a-1","outputs":3}"#,
        ] {
            assert!(read(bad.as_bytes(), "a-1").is_err(), "{bad}");
        }
    }
}
