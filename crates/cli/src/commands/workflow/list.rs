//! `runwright workflow list`.

use serde_json::json;

use crate::data::{Data, Table};
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

/// Lists the registered workflows.
pub(crate) async fn run(_args: Args, session: &Session) -> Result<Exit, Failure> {
    let door = session.read()?;
    let registry = door.workflows(&session.tenant).await?;
    let mut data = Data::new();
    let mut table = Table::new(["WORKFLOW", "VERSION", "DIGEST"]);
    for definition in registry.workflows() {
        match session.form {
            Form::Json => data.json_line(&json!({
                "workflowId": definition.workflow,
                "version": definition.version,
                "digest": definition.digest,
            }))?,
            Form::Text => table.row([
                style::strong(&definition.workflow),
                text::one_line(&definition.version, 30),
                definition.digest.to_string().chars().take(12).collect(),
            ]),
        }
    }
    match (session.form, registry.workflows().next()) {
        (Form::Text, None) => {
            talk::say("no workflow is registered; register one with `runwright workflow put FILE`");
        }
        (Form::Text, Some(_)) => table.lines().try_for_each(|line| data.line(line))?,
        (Form::Json, _) => {}
    }
    data.done()?;
    Ok(Exit::Done)
}
