//! `runwright secrets`: the folder of secrets, and their scopes.

use std::io::Read as _;
use std::path::PathBuf;

use clap::Subcommand;
use kernel::ids::TenantId;
use kernel::problem::quoted;
use kernel::stream::Owner;
use runtime::secrets::{FileSecrets, Scope, StoredSecret};
use serde_json::json;

use crate::args::tenant;
use crate::data::{Data, Table};
use crate::env;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::talk;

/// Maximum bytes of standard input for a secret.
const MAX_INPUT: u64 = 1 << 20;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Store a secret, read from standard input without the line break at its end
    #[command(
        after_help = "A secret is for a whole tenant, for one workspace, or for the runs of one \
                      principal. A workflow names it secret://NAME and gets the narrowest one for \
                      its run, or secret://SCOPE/NAME where SCOPE is user, workspace or tenant. A \
                      run stores only the name."
    )]
    Put(NamedArgs),
    /// List the secrets that runs of a principal can use, without their values
    List(Whose),
    /// Remove a secret
    Remove(NamedArgs),
}

/// The scope of secrets, as typed.
#[derive(clap::Args, Debug)]
pub(crate) struct Whose {
    /// The folder of secrets, as of `serve` [default: secrets in the data folder]
    #[arg(long, value_name = "DIR", env = env::SECRETS, hide_env = true)]
    secrets: Option<PathBuf>,

    /// The tenant
    #[arg(long, value_name = "TENANT", default_value = "local", value_parser = tenant)]
    tenant: TenantId,

    /// A workspace of the tenant
    #[arg(long, value_name = "WORKSPACE")]
    workspace: Option<String>,

    /// A principal of the tenant, as keys and JWTs name it
    #[arg(long, value_name = "PRINCIPAL")]
    principal: Option<String>,

    /// The issuer of the JWTs that stand for the principal
    #[arg(long, value_name = "URL", requires = "principal")]
    issuer: Option<String>,
}

/// A secret, as typed.
#[derive(clap::Args, Debug)]
pub(crate) struct NamedArgs {
    /// Its name: letters, digits, - _ .
    #[arg(value_name = "NAME")]
    name: String,

    #[command(flatten)]
    whose: Whose,
}

impl Whose {
    fn files(&self, session: &Session) -> FileSecrets {
        let folder = self.secrets.clone();
        FileSecrets::new(folder.unwrap_or_else(|| session.place.secrets()))
    }

    fn owner(&self) -> Owner {
        Owner {
            tenant: self.tenant.clone(),
            workspace: self.workspace.clone(),
            principal: self.principal.clone(),
            issuer: self.issuer.clone(),
        }
    }

    /// The scope of a secret.
    fn scope(&self) -> Result<Scope, Failure> {
        match (&self.workspace, &self.principal) {
            (Some(_), Some(_)) => Err(Failure::new(
                "a secret is for a workspace or for a principal, not for both",
            )
            .hint("remove --workspace or --principal")),
            (Some(_), None) => Ok(Scope::Workspace),
            (None, Some(_)) => Ok(Scope::User),
            (None, None) => Ok(Scope::Tenant),
        }
    }
}

impl NamedArgs {
    fn secret(&self) -> Result<StoredSecret, Failure> {
        Ok(StoredSecret {
            scope: self.whose.scope()?,
            name: self.name.clone(),
        })
    }
}

/// Carries out the command.
pub(crate) fn dispatch(command: Command, session: &Session) -> Result<Exit, Failure> {
    match command {
        Command::Put(args) => put(&args, session),
        Command::List(whose) => list(&whose, session),
        Command::Remove(args) => remove(&args, session),
    }
}

fn put(args: &NamedArgs, session: &Session) -> Result<Exit, Failure> {
    let secret = args.secret()?;
    let mut value = String::new();
    let read = std::io::stdin()
        .lock()
        .take(MAX_INPUT)
        .read_to_string(&mut value);
    read.map_err(|error| Failure::new(format!("standard input cannot be read: {error}")))?;
    let value = value.strip_suffix('\n').unwrap_or(&value);
    let value = value.strip_suffix('\r').unwrap_or(value);
    if value.is_empty() {
        return Err(
            Failure::new("standard input is empty: there is no secret to store")
                .hint("write `runwright secrets put NAME … < FILE`"),
        );
    }
    let kept = args
        .whose
        .files(session)
        .put(&args.whose.owner(), &secret, value);
    kept.map_err(|error| unusable(&args.name, &error))?;
    talk::say(format!("{} is stored", described(&secret)));
    Ok(Exit::Done)
}

fn remove(args: &NamedArgs, session: &Session) -> Result<Exit, Failure> {
    let secret = args.secret()?;
    let removed = args
        .whose
        .files(session)
        .remove(&args.whose.owner(), &secret);
    if removed.map_err(|error| unusable(&args.name, &error))? {
        talk::say(format!("{} was removed", described(&secret)))
    } else {
        talk::say(format!("there is no {}", described(&secret)))
    }
    Ok(Exit::Done)
}

fn list(whose: &Whose, session: &Session) -> Result<Exit, Failure> {
    let found = whose.files(session).list(&whose.owner());
    let found = found
        .map_err(|error| Failure::new(format!("the folder of secrets cannot be read: {error}")))?;
    let mut data = Data::new();
    if session.form == Form::Json {
        for StoredSecret { scope, name } in &found {
            data.json_line(&json!({ "name": name, "scope": scope.as_str() }))?;
        }
        data.done()?;
        return Ok(Exit::Done);
    }
    if found.is_empty() {
        talk::say("no secret yet; store one with `runwright secrets put`");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(["SCOPE", "NAME"]);
    for StoredSecret { scope, name } in found {
        table.row([scope.as_str().to_owned(), name]);
    }
    table.lines().try_for_each(|line| data.line(line))?;
    data.done()?;
    Ok(Exit::Done)
}

fn described(secret: &StoredSecret) -> String {
    format!("secret://{}/{}", secret.scope.as_str(), secret.name)
}

fn unusable(name: &str, error: &std::io::Error) -> Failure {
    Failure::new(format!(
        "the secret {} cannot be stored or removed: {error}",
        quoted(name)
    ))
}
