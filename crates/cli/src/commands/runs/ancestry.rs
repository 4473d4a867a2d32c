//! `runwright runs ancestry`: the origin of a run.

use kernel::ids::StreamId;
use serde_json::{Map, Value, json};

use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::lookup::RunName;
use crate::session::{Form, Session};
use crate::target::{self, Intent, Purpose};
use crate::{style, text};

/// Steps that are followed.
const STEPS: usize = 100;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright runs ancestry last
  runwright runs ancestry last --json | jq -r .runId

From the run upwards: the run that started it or that it was forked from, and so on. With --json one
line per run.")]
pub(crate) struct Args {
    /// The run: its id, the beginning or the end of it, or `last`
    #[arg(value_name = "RUN")]
    run: RunName,
}

/// Lists the ancestors of a run.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    // Also of a run that has no parent.
    target::server(session, "runs ancestry").await?;
    let target = target::open(session, Intent::Read).await?;
    let run = target.find(&args.run, Purpose::Use).await?;
    let mut steps = vec![step(run.as_str(), Some(&target.snapshot(&run).await?))];
    while let Some(run) = steps.last().and_then(above)
        && steps.len() < STEPS
    {
        steps.push(step(run.as_str(), target.ancestor(&run).await?.as_ref()));
    }
    print(session, &steps)
}

/// The origin of a run, from its snapshot; without a snapshot it was erased.
fn step(run: &str, snapshot: Option<&Value>) -> Value {
    let Some(snapshot) = snapshot else {
        return json!({ "runId": run, "status": "erased" });
    };
    let mut step = Map::new();
    for name in ["runId", "workflowId", "status"] {
        step.insert(name.to_owned(), snapshot[name].clone());
    }
    // The source's parent did not start the fork.
    let names: &[&str] = match snapshot.get("forkedFrom") {
        Some(_) => &["forkedFrom"],
        None => &["parentRunId", "parentNodeId"],
    };
    for name in names {
        if let Some(value) = snapshot.get(*name) {
            step.insert((*name).to_owned(), value.clone());
        }
    }
    Value::Object(step)
}

/// The next run above a step.
fn above(step: &Value) -> Option<StreamId> {
    let source = &step["forkedFrom"]["runId"];
    let above = source.as_str().or(step["parentRunId"].as_str());
    above.map(StreamId::new)
}

/// Shows the steps.
fn print(session: &Session, steps: &[Value]) -> Result<Exit, Failure> {
    let mut data = Data::new();
    for (depth, step) in steps.iter().enumerate() {
        if session.form == Form::Json {
            data.json_line(step)?;
            continue;
        }
        let word = |value: &Value| text::one_line(value.as_str().unwrap_or_default(), 60);
        let indent = "  ".repeat(depth);
        let (run, status) = (word(&step["runId"]), word(&step["status"]));
        data.line(format!(
            "{indent}{} {} {}",
            style::strong(run),
            word(&step["workflowId"]),
            style::status(&status)
        ))?;
        let fork = &step["forkedFrom"];
        let how = match (fork.is_object(), step.get("parentNodeId")) {
            (true, _) => match fork.get("fromSeq") {
                Some(from) => format!("{} from event {from} of", word(&fork["mode"])),
                None => format!("{} of", word(&fork["mode"])),
            },
            (false, Some(node)) => format!("started by node {} of", word(node)),
            (false, None) => continue,
        };
        data.line(style::dim(format!("{indent}  {how}")))?;
    }
    data.done()?;
    Ok(Exit::Done)
}
