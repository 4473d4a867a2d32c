//! `runwright runs resolve`.

use kernel::coordinator::awaited_queue;
use kernel::definition::NodeIx;
use kernel::ids::InterruptId;
use kernel::run::{Command, Run};
use runtime::api::BY_HAND;
use runtime::redact::Redactor;
use serde_json::{Map, Value, json};

use super::say_who_acts;
use crate::document::Source;
use crate::exit::{Exit, Failure};
use crate::lookup::{self, RunName, short};
use crate::session::Session;
use crate::{talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright runs interrupts                               open questions
  runwright runs resolve last --action accept --comment 'looks good'
  runwright runs resolve 1f0c9a2b review --action reject --feedback 'the tests fail'
  runwright runs resolve last ask --answer colour=blue --answer why='\"the sky\"'
  runwright runs resolve last payment --value '{\"order\": \"o-7\", \"paid\": true}'

NODE may be left out if the run has one question. The first answer counts.")]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    pub(crate) run: RunName,

    /// The node with the question
    #[arg(value_name = "NODE")]
    pub(crate) node: Option<String>,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

/// An answer.
#[derive(clap::Args, Clone, Debug)]
#[group(required = true, multiple = true)]
pub(crate) struct Answer {
    /// The decision at a gate: accept, reject, refine, edit-accept or ask
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,

    /// The answer as JSON, or its fields in addition to --action; - reads it from standard input
    #[arg(long, value_name = "JSON")]
    value: Option<String>,

    /// An answer to one of several questions; JSON, or text
    #[arg(long = "answer", value_name = "ID=VALUE")]
    answers: Vec<String>,

    /// A remark, kept with the decision
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,

    /// What must change, in your words
    #[arg(long, value_name = "TEXT")]
    feedback: Option<String>,

    /// Who answers [default: cli; on a server the bearer of the key]
    #[arg(long = "as", value_name = "NAME")]
    who: Option<String>,
}

impl Answer {
    /// The answering person, if given.
    pub(crate) fn who(&self) -> Option<&str> {
        self.who.as_deref()
    }

    /// The value that is sent.
    pub(crate) fn value(&self) -> Result<Value, Failure> {
        let given = match self.value.as_deref() {
            Some("-") => Some(read("--value", &Source::Stdin.read()?)?),
            Some(typed) => Some(read("--value", typed.as_bytes())?),
            None => None,
        };
        let mut more = Map::new();
        let texts = [
            ("action", &self.action),
            ("comment", &self.comment),
            ("feedback", &self.feedback),
        ];
        for (name, given) in texts {
            if let Some(given) = given {
                more.insert(name.to_owned(), json!(given));
            }
        }
        if !self.answers.is_empty() {
            more.insert("answers".to_owned(), Value::Object(self.answers()?));
        }
        match given {
            Some(value) if more.is_empty() => Ok(value),
            Some(Value::Object(mut fields)) => {
                fields.extend(more);
                Ok(Value::Object(fields))
            }
            Some(_) => Err(Failure::new(
                "--value must be a JSON object if other fields are given",
            )),
            None => Ok(Value::Object(more)),
        }
    }

    fn answers(&self) -> Result<Map<String, Value>, Failure> {
        let read_one = |typed: &String| {
            let Some((id, value)) = typed.split_once('=') else {
                let what = format!("--answer {} has no =", kernel::problem::quoted(typed));
                return Err(Failure::new(what).hint("write --answer ID=VALUE"));
            };
            let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
            Ok((id.to_owned(), value))
        };
        self.answers.iter().map(read_one).collect()
    }
}

fn read(what: &str, bytes: &[u8]) -> Result<Value, Failure> {
    let limits = kernel::json::Limits::DEFINITION;
    kernel::json::parse(bytes, limits).map_err(|problems| Failure::Problems {
        document: what.to_owned(),
        problems,
    })
}

/// Answers a question.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let mut value = args.answer.value()?;
    Redactor::default().value(&mut value);
    let door = session.write()?;
    let run = lookup::find(&door, &args.run).await?;
    let state = door.load(&run).await?;
    let (interrupt, node) = asked(&state, args.node.as_deref())?;
    let by = args.answer.who().unwrap_or("cli").to_owned();
    let command = Command::Resolve {
        interrupt,
        value,
        by: Some(by),
        capacity: kernel::run::Capacity::default(),
    };
    let state = super::tell(&door, &run, command).await?;
    say_how_it_stands(short(&run), &node, state.status().as_str());
    say_who_acts(session, &door, &run).await?;
    Ok(Exit::Done)
}

/// The command that answers a question, to be copied unchanged where a single word is the answer.
/// Another action, such as `reject`, may replace it.
pub(crate) fn how(run: &str, node: &str, kind: &str, data: &Value) -> String {
    let node = text::one_line(node, 60);
    let first = |list: &str| data.get(list)?.as_array()?.first();
    let answer = match kind {
        "approval" => {
            let action = first("actions").and_then(Value::as_str).unwrap_or("accept");
            format!("--action {}", text::one_line(action, 30))
        }
        // The question of a failed node.
        "custom" if data.get("error").is_some() => "--action retry".to_owned(),
        "clarification" => {
            let id = first("questions").and_then(|question| question.get("id")?.as_str());
            format!("--answer {}=VALUE", text::one_line(id.unwrap_or("ID"), 40))
        }
        _ => "--value JSON".to_owned(),
    };
    format!("`runwright runs resolve {run} {node} {answer}`")
}

/// The description of the awaited worker, and the command that starts one.
pub(crate) fn worker_of(queue: &str) -> String {
    format!("a worker of the queue {queue}: `runwright worker --queue {queue} -- CMD` is one")
}

/// Reports the state after an answer.
pub(crate) fn say_how_it_stands(run: &str, node: &str, status: &str) {
    let (node, status) = (text::one_line(node, 60), text::one_line(status, 30));
    talk::say(format!("{node} has been answered; run {run} is {status}"));
}

/// The question that is meant.
fn asked(run: &Run, node: Option<&str>) -> Result<(InterruptId, String), Failure> {
    let id = short(&run.header.stream);
    let open = run.facts().map(|facts| facts.interrupts.as_slice());
    let name = |of: u32| run.plan.node(NodeIx(of)).id.to_string();
    let open = open.unwrap_or_default();
    let (with_workers, open): (Vec<_>, Vec<_>) = open
        .iter()
        .partition(|open| awaited_queue(&open.data).is_some());
    let fits = |of: u32| node.is_none_or(|wanted| wanted == name(of));
    let meant: Vec<_> = open.iter().filter(|open| fits(open.node)).collect();
    let mut tasks = with_workers.iter().filter(|open| fits(open.node));
    match (meant.as_slice(), tasks.next(), open.as_slice()) {
        ([one], _, _) => Ok((one.id.clone(), name(one.node))),
        ([], Some(task), _) => Err(not_asked(
            &name(task.node),
            awaited_queue(&task.data).unwrap_or_default(),
        )),
        ([], None, []) => Err(Failure::new(format!(
            "run {id} has no open question; it is {}",
            run.status()
        ))),
        (_, _, open) => {
            let names: Vec<String> = open.iter().map(|open| name(open.node)).collect();
            Err(which(id, &names))
        }
    }
}

/// The error for answering a node that waits for a worker.
pub(crate) fn not_asked(node: &str, queue: &str) -> Failure {
    let node = text::one_line(node, 60);
    Failure::new(format!(
        "{node} waits for a worker of the queue {queue}, not for an answer"
    ))
    .hint(BY_HAND)
}

/// The error if several nodes ask, or others than the named one.
pub(crate) fn which(run: &str, asking: &[String]) -> Failure {
    let names: Vec<String> = asking.iter().map(|name| text::one_line(name, 60)).collect();
    Failure::new("name the node to answer")
        .hint(format!("run {run} has questions at {}", names.join(", ")))
}
