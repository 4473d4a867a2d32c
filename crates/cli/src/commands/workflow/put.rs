//! `runwright workflow put`.

use kernel::audit::Actor;
use serde_json::json;

use crate::data::Data;
use crate::document::{Runner, Source};
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright workflow put build.json deploy.json

Putting a workflow again never changes a run that exists: each run keeps \
the definition it was created with. A version names one content: a changed definition needs \
another version.")]
pub(crate) struct Args {
    /// Workflow definitions; - for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
}

/// Registers definitions.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let mut documents = Vec::new();
    for file in &args.files {
        let source = Source::from(file.as_str());
        let document = source.read()?;
        Runner::Run.check(&source, &document)?;
        documents.push((source.name(), document));
    }
    let door = session.create()?;
    let mut data = Data::new();
    for (name, document) in &documents {
        let prepared = door
            .plans()
            .prepare(&**door.store(), &session.tenant, document)
            .await;
        let prepared = prepared.map_err(|error| Failure::plan(name, error))?;
        let (definition, warnings) = (prepared.definition, &prepared.plan.warnings);
        talk::say_warnings(name, warnings);
        door.put_workflow(&session.tenant, &definition, &Actor::operator())
            .await
            .map_err(|error| Failure::plan(name, error))?;
        match session.form {
            Form::Json => data.json_line(&json!({
                "workflowId": definition.workflow,
                "version": definition.version,
                "digest": definition.digest,
                "warnings": warnings,
            }))?,
            Form::Text => data.line(format!(
                "{} {}",
                definition.workflow,
                text::one_line(&definition.version, 30)
            ))?,
        }
    }
    crate::trail::deliver(&door).await;
    data.done()?;
    Ok(Exit::Done)
}
