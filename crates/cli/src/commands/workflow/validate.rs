//! `runwright workflow validate`.

use runtime::plans::Plans;
use serde_json::json;

use crate::data::Data;
use crate::document::Source;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright workflow validate build.json

Exits with 0 if all are valid, 1 if one is not, 2 if one cannot be read. \
Needs no store.")]
pub(crate) struct Args {
    /// Workflow definitions; - for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
}

/// Checks definitions.
pub(crate) fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let plans = Plans::new(session.nodes.clone());
    let mut data = Data::for_verdict();
    let mut exit = Exit::Done;
    for file in &args.files {
        let source = Source::from(file.as_str());
        let name = source.name();
        let checked = match source.read() {
            Ok(document) => plans.compile(&document),
            Err(Failure::Problems { problems, .. }) => Err(problems),
            Err(failure) => {
                talk::say_failure(&failure);
                exit = exit.max(Exit::Refused);
                continue;
            }
        };
        if checked.is_err() {
            exit = exit.max(Exit::Found);
        }
        match (session.form, checked) {
            (Form::Json, Ok((plan, _))) => data.json_line(&json!({
                "file": name,
                "valid": true,
                "workflowId": plan.workflow,
                "version": plan.version,
                "nodes": plan.nodes.len(),
                "edges": plan.edges.len(),
                "digest": plan.digest,
                "problems": [],
                "warnings": plan.warnings,
            }))?,
            (Form::Json, Err(problems)) => data.json_line(&json!({
                "file": name,
                "valid": false,
                "problems": problems.listed,
                "moreProblems": problems.more,
                "warnings": [],
            }))?,
            (Form::Text, Ok((plan, _))) => {
                let (nodes, edges) = (plan.nodes.len(), plan.edges.len());
                data.line(format!(
                    "{name}: {}: {} {}, {}, {}",
                    style::good("valid"),
                    plan.workflow,
                    text::one_line(&plan.version, 30),
                    text::count(nodes, "node"),
                    text::count(edges, "edge"),
                ))?;
                for warning in &plan.warnings {
                    data.line(format!(
                        "  {} {warning} ({})",
                        style::warn("warning"),
                        warning.code.as_str()
                    ))?;
                }
            }
            (Form::Text, Err(problems)) => {
                let failure = Failure::Problems {
                    document: name,
                    problems,
                };
                data.line(failure.to_string())?;
            }
        }
    }
    data.done()?;
    Ok(exit)
}
