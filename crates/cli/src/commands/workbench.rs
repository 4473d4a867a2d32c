//! `runwright workbench`: run bundles of the LLM Workbench as files.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;
use faces::workbench::bundle::{self, Integrity};
use faces::workbench::document::{is_run_id, read};
use kernel::audit::Actor;
use kernel::document::{
    Attribution, Audited, Body, DocumentCommand, DocumentRejection, Expected, Save, Via,
};
use kernel::ids::TenantId;
use kernel::limits::MAX_DOCUMENT_BYTES;
use kernel::stream::Owner;
use runtime::door::DocumentRefused;
use runtime::named_file::NamedFile;
use serde_json::{Value, json};

use crate::args::tenant;
use crate::data::Data;
use crate::exit::{Exit, Failure, io_text};
use crate::lookup::documents;
use crate::session::{Form, Session};
use crate::{style, talk, text};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Save the run of a bundle, as a browser app would
    Import(ImportArgs),
    /// Write a run as a bundle with its integrity hash
    Export(ExportArgs),
    /// Check the hashes and the structure of a bundle; needs no store
    Verify(VerifyArgs),
}

/// The tenant of runs.
#[derive(clap::Args, Debug)]
struct Whose {
    /// The tenant
    #[arg(long, value_name = "TENANT", default_value = "local", value_parser = tenant)]
    tenant: TenantId,

    /// The workspace within the tenant
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,
}

impl Whose {
    fn owner(self) -> Owner {
        Owner {
            workspace: self.workspace,
            ..Owner::tenant(self.tenant)
        }
    }
}

#[derive(clap::Args, Debug)]
pub(crate) struct ImportArgs {
    /// The bundle; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Accept a bundle without a hash, or with a wrong one
    #[arg(long)]
    ignore_integrity: bool,

    #[command(flatten)]
    whose: Whose,
}

#[derive(clap::Args, Debug)]
pub(crate) struct ExportArgs {
    /// The run: its app's id, the id of its log, or the end of one of them
    #[arg(value_name = "RUN")]
    run: String,

    /// An earlier revision
    #[arg(long, value_name = "N")]
    revision: Option<u64>,

    #[command(flatten)]
    whose: Whose,
}

#[derive(clap::Args, Debug)]
#[command(
    after_help = "The integrity hash shows accidental changes. A person who changes a bundle on \
                  purpose can compute it again: it does not show where a bundle comes from."
)]
pub(crate) struct VerifyArgs {
    /// The bundle; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Carries out the command.
pub(crate) async fn dispatch(command: Command, session: &Session) -> Result<Exit, Failure> {
    match command {
        Command::Import(args) => import(args, session).await,
        Command::Export(args) => export(args, session).await,
        Command::Verify(args) => verify(&args, session),
    }
}

fn load(file: &Path) -> Result<Value, Failure> {
    let is_stdin = file == Path::new("-");
    let said = |why: String| {
        if is_stdin {
            Failure::new(format!("standard input: {why}"))
        } else {
            Failure::new(format!("{}: {why}", file.display()))
        }
    };
    let bytes = if is_stdin {
        bounded(std::io::stdin().lock())
    } else {
        NamedFile::open(file).and_then(bounded)
    };
    let bytes = bytes.map_err(|error| said(io_text(&error)))?;
    if bytes.len() > MAX_DOCUMENT_BYTES {
        return Err(said(format!("larger than {MAX_DOCUMENT_BYTES} bytes")));
    }
    read(&bytes).map_err(|bad| match bad.code {
        "INVALID_JSON" => said("not JSON, or cut short".into()),
        _ => said(bad.message.to_owned()),
    })
}

/// The whole input, up to one byte more than the limit of a bundle.
fn bounded(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_DOCUMENT_BYTES as u64 + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

async fn import(args: ImportArgs, session: &Session) -> Result<Exit, Failure> {
    let integrity = if args.ignore_integrity {
        Integrity::Ignored
    } else {
        Integrity::Required
    };
    let body = bundle::import(&load(&args.file)?, integrity).map_err(|bad| {
        let failure = Failure::new(format!("{} ({})", bad.message, bad.code));
        match bad.code {
            "MISSING_INTEGRITY" | "INTEGRITY_MISMATCH" => {
                failure.hint("--ignore-integrity accepts the bundle anyway")
            }
            _ => failure,
        }
    })?;
    let id = body.id().to_owned();
    if !is_run_id(&id) {
        return Err(Failure::new("the id of the bundle's run is not valid here")
            .hint("a run id is run_ and letters, digits, - and _, at most 128 characters"));
    }
    let save = Save {
        body: Arc::new(body),
        text: None,
        via: Via::Import,
        expected: Expected::Anything,
    };
    let command = DocumentCommand::Save(Box::new(save));
    let told = Attribution {
        by: Actor::operator(),
        audited: Audited::default(),
    };
    let (door, owner) = (session.create()?, args.whose.owner());
    let saved = door.document_command(&owner, &id, &command, &told).await;
    let save = match saved {
        Ok(document) => Some(document.saves().len()),
        Err(DocumentRefused::Rejected(DocumentRejection::Unchanged)) => {
            talk::say(format!("run {id} had this content already"));
            None
        }
        Err(DocumentRefused::Rejected(why)) => return Err(Failure::new(why.to_string())),
        Err(DocumentRefused::Store(error)) => return Err(error.into()),
    };
    let mut data = Data::new();
    match session.form {
        Form::Text => data.line(&id)?,
        Form::Json => {
            let mut told = json!({ "id": id, "unchanged": save.is_none() });
            if let Some(save) = save {
                told["save"] = json!(save);
            }
            data.json(&told)?;
        }
    }
    data.done()?;
    Ok(Exit::Done)
}

async fn export(args: ExportArgs, session: &Session) -> Result<Exit, Failure> {
    let (door, owner) = (session.read()?, args.whose.owner());
    let absent = || {
        let run = text::one_line(&args.run, 128);
        let whose = text::one_line(owner.tenant.as_str(), 128);
        Failure::new(format!("tenant {whose} has no workbench run {run}"))
            .hint("select the run with --tenant and --workspace")
    };
    let stream = if is_run_id(&args.run) {
        door.document_stream(&owner, &args.run).await?
    } else {
        None
    };
    let stream = match (stream, args.run.parse()) {
        (Some(stream), _) => stream,
        (None, Ok(name)) => documents::find(&door, &name).await?.ok_or_else(absent)?,
        (None, Err(_)) => return Err(absent()),
    };
    let history = door.document_history(&stream).await?;
    let document = history.document();
    let theirs = &document.header().owner;
    if (&theirs.tenant, &theirs.workspace) != (&owner.tenant, &owner.workspace) {
        return Err(absent());
    }
    let number = match args.revision {
        None => Some(document.saves().len() as u64),
        Some(revision) => document.save_of(revision).map(|save| save.number),
    };
    let number = number.ok_or_else(|| Failure::new("the run has no such revision"))?;
    let body: Body = door.document_body(&history, number).await?;
    let mut data = Data::new();
    data.bytes(&kernel::json::canonical(&bundle::export(&body)))?;
    data.line("")?;
    data.done()?;
    Ok(Exit::Done)
}

fn verify(args: &VerifyArgs, session: &Session) -> Result<Exit, Failure> {
    let value = load(&args.file)?;
    let said = |bad: faces::workbench::Bad| Failure::new(format!("{} ({})", bad.message, bad.code));
    let found = bundle::verify(&value).map_err(said)?;
    let structure = bundle::import(&value, Integrity::Ignored).err();
    let integrity = match found.matches {
        Some(true) => "valid",
        Some(false) => "mismatch",
        None => "missing",
    };
    let mut data = Data::for_verdict();
    match session.form {
        Form::Json => data.json(&json!({
            "runId": found.run,
            "sha256": found.sha256,
            "integrity": integrity,
            "structure": structure.map_or("valid", |bad| bad.code),
            "stalePayloadHashes": found.stale_hashes,
            "unknownEvents": found.unknown_events,
        }))?,
        Form::Text => {
            let shown = |fine: bool, word: &str| {
                if fine {
                    style::good(word)
                } else {
                    style::bad(word)
                }
            };
            let fine = found.matches == Some(true);
            data.line(format!("integrity  {}", shown(fine, integrity)))?;
            let why = structure.map_or("valid", |bad| bad.message);
            data.line(format!("structure  {}", shown(structure.is_none(), why)))?;
            data.line(format!("sha256     {}", found.sha256))?;
            for key in &found.stale_hashes {
                let key = text::one_line(key, 60);
                talk::say(format!(
                    "the payload hash of artifact {key} does not match its data"
                ));
            }
            if found.unknown_events > 0 {
                let count = found.unknown_events;
                talk::say(format!(
                    "{count} events have kinds that bundles do not support"
                ));
            }
        }
    }
    data.done()?;
    if found.matches == Some(true) && structure.is_none() {
        Ok(Exit::Done)
    } else {
        Ok(Exit::Found)
    }
}
