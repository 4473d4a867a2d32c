//! `runwright runs resolve`.

use serde_json::{Map, Value, json};

use crate::document::Source;
use crate::exit::{Exit, Failure};
use crate::lookup::{RunName, short};
use crate::session::Session;
use crate::target::{self, Intent, Purpose};
use crate::{questions, talk, text};

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
    run: RunName,

    /// The node with the question
    #[arg(value_name = "NODE")]
    node: Option<String>,

    #[command(flatten)]
    answer: Answer,
}

/// An answer.
#[derive(clap::Args, Clone, Debug)]
#[group(required = true, multiple = true)]
struct Answer {
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
    /// The value that is sent.
    fn value(&self) -> Result<Value, Failure> {
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
    let value = args.answer.value()?;
    let target = target::open(session, Intent::Write).await?;
    let run = target.find(&args.run, Purpose::Use).await?;
    let node = match args.node {
        Some(node) => node,
        None => {
            let open = target.questions(Some(&run)).await?;
            match questions::choose(&run, &open, None)? {
                Some(question) => questions::node_of(question).to_owned(),
                None => {
                    let snapshot = target.snapshot(&run).await?;
                    let status = snapshot["status"].as_str().unwrap_or_default();
                    return Err(questions::nothing_asked(&run, status));
                }
            }
        }
    };
    let who = args.answer.who.as_deref();
    let status = target.resolve(&run, &node, value, who).await?;
    let (node, status) = (text::one_line(&node, 60), text::one_line(&status, 30));
    let id = short(&run);
    talk::say(format!("{node} has been answered; run {id} is {status}"));
    target.say_who_acts(&run).await?;
    Ok(Exit::Done)
}
