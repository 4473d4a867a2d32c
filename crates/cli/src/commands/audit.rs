//! `runwright audit`: the trail of security-relevant actions.

mod verify;

use clap::Subcommand;
use kernel::audit::{AuditEvent, Event, Outcome};
use kernel::ids::TenantId;
use runtime::access::trail;
use serde_json::json;

use crate::data::{Data, Table};
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// Entries read at a time.
const PAGE: usize = 1_000;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the entries, oldest first
    List(Args),
    /// Print every entry as stored, for a copy elsewhere
    Export(verify::ExportArgs),
    /// Recompute hashes, roots and signatures, of the store or of an exported file
    Verify(verify::Args),
    /// Print the newest checkpoint, to keep elsewhere
    Checkpoint(verify::ExportArgs),
    /// Print the public key for checking checkpoints
    Key,
}

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The trail records keys that were created, rotated and revoked, workflows that \
                  were registered, runs that were cancelled, and administration attempts without \
                  permission. It is a log like every other: `runwright verify` checks its hash \
                  chain, `runwright audit verify` also its signed checkpoints."
)]
pub(crate) struct Args {
    /// The tenant
    #[arg(long, value_name = "TENANT", default_value = "local")]
    tenant: String,

    /// Begin at this entry
    #[arg(long, value_name = "SEQ", default_value = "0")]
    from: u64,
}

/// Carries out the command.
pub(crate) async fn dispatch(command: Command, session: &Session) -> Result<Exit, Failure> {
    let args = match command {
        Command::List(args) => args,
        Command::Export(args) => return verify::export(args, session).await,
        Command::Verify(args) => return verify::run(args, session).await,
        Command::Checkpoint(args) => return verify::checkpoint(args, session).await,
        Command::Key => return verify::key(session),
    };
    let door = session.read()?;
    let tenant = TenantId::new(&args.tenant);
    let mut data = Data::new();
    let mut table = Table::new(["SEQ", "WHEN", "WHO", "WHAT", "OF", "OUTCOME"]);
    let mut from = args.from;
    loop {
        let page = trail::read(&**door.store(), &tenant, from, PAGE).await?;
        let Some(last) = page.last() else {
            break;
        };
        from = last.seq + 1;
        for event in &page {
            match session.form {
                Form::Json => data.json_line(&as_json(event))?,
                Form::Text => table.row(as_row(event)),
            }
        }
    }
    if session.form == Form::Text {
        if from == args.from {
            talk::say("the audit trail is empty");
            return Ok(Exit::Done);
        }
        table.lines().try_for_each(|line| data.line(line))?;
    }
    data.done()?;
    Ok(Exit::Done)
}

fn as_json(event: &Event) -> serde_json::Value {
    let entry = match &event.body {
        AuditEvent::Recorded(entry) => entry,
        AuditEvent::Checkpointed(checkpoint) => {
            return json!({
                "seq": event.seq,
                "recordedAt": event.at.to_string(),
                "checkpoint": checkpoint,
            });
        }
    };
    json!({
        "seq": event.seq,
        "recordedAt": event.at.to_string(),
        "decidedAt": entry.decided_at.to_string(),
        "action": entry.action,
        "by": entry.by,
        "on": entry.on,
        "outcome": entry.outcome,
        "message": entry.message,
    })
}

fn as_row(event: &Event) -> [String; 6] {
    let entry = match &event.body {
        AuditEvent::Recorded(entry) => entry,
        AuditEvent::Checkpointed(checkpoint) => {
            return [
                event.seq.to_string(),
                event.at.to_string(),
                "the engine".into(),
                "checkpoint".into(),
                format!("entries up to {}", checkpoint.at_sequence),
                "signed".into(),
            ];
        }
    };
    let action = serde_json::to_value(entry.action).unwrap_or_default();
    let id = entry.on.id.as_deref().unwrap_or_default();
    [
        event.seq.to_string(),
        entry.decided_at.to_string(),
        text::one_line(&entry.by.principal, 30),
        action.as_str().unwrap_or_default().to_owned(),
        text::one_line(&format!("{} {id}", entry.on.kind), 50),
        match &entry.outcome {
            Outcome::Done => "done".into(),
            Outcome::Denied { needs } => style::bad(format!("denied, needs {needs}")),
        },
    ]
}
