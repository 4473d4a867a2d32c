//! Options that several commands share.

use std::path::PathBuf;

use kernel::ids::TenantId;
use kernel::problem::quoted;
use runtime::models::Providers;
use runtime::outbound::{Allowed, Outbound};
use runtime::programs::{Fallback, Programs};
use runtime::secrets::{AllowedNames, EnvSecrets, FileSecrets, SecretSources};

use crate::env;
use crate::exit::Failure;
use crate::session::Session;

/// Reads the name of a tenant.
pub(crate) fn tenant(text: &str) -> Result<TenantId, String> {
    let named = TenantId::parse(text);
    named.ok_or_else(|| "a tenant is 1 to 256 bytes of text without an asterisk".into())
}

/// Whether an option is on the command line, and not only a variable of the environment.
pub(crate) fn is_typed(option: &str) -> bool {
    std::env::args_os().any(|arg| {
        let arg = arg.to_string_lossy();
        let rest = arg.strip_prefix(option);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    })
}

/// The addresses and credentials that nodes may use.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct PortArgs {
    /// Let HTTP nodes reach an address that is not public: HOST:PORT, or a network as 10.1.0.0/16
    #[arg(long, value_name = "WHERE", env = env::ALLOW_HTTP, hide_env = true, value_delimiter = ',')]
    allow_http: Vec<String>,

    /// Let nodes use this variable of the environment as a secret, env:NAME [default: those whose
    /// name begins with RUNWRIGHT_SECRET_]
    #[arg(long, value_name = "NAME", env = env::SECRET_ENV, hide_env = true, value_delimiter = ',')]
    secret_env: Vec<String>,

    /// Let nodes use the files of this folder as secrets, secret://NAME [default: secrets in the
    /// data folder]
    #[arg(long, value_name = "DIR", env = env::SECRETS, hide_env = true)]
    secrets: Option<PathBuf>,

    /// Let the workflows of a tenant run programs, confined; TENANT as keys name it [default: only
    /// workflows registered by the operator run programs]
    #[arg(long, value_name = "TENANT", env = env::ALLOW_PROGRAMS, hide_env = true,
          value_delimiter = ',', value_parser = tenant)]
    allow_programs: Vec<TenantId>,

    /// Run the programs of those tenants even if this machine cannot confine them: they can read
    /// and change everything the server can
    #[arg(long)]
    allow_unconfined_programs: bool,

    /// The models that nodes may use, and their users, as a TOML file
    #[arg(long, value_name = "FILE", env = env::PROVIDERS, hide_env = true)]
    providers: Option<PathBuf>,
}

/// The options of [`PortArgs`].
const PORT_OPTIONS: [&str; 6] = [
    "--allow-http",
    "--secret-env",
    "--secrets",
    "--allow-programs",
    "--allow-unconfined-programs",
    "--providers",
];

impl PortArgs {
    /// Refuses typed options in a command that a server carries out. The variables of the
    /// environment are also set for other commands, and count nothing there.
    pub(crate) fn refuse_typed() -> Result<(), Failure> {
        match PORT_OPTIONS.into_iter().find(|option| is_typed(option)) {
            None => Ok(()),
            Some(option) => Err(Failure::new(format!(
                "{option} has no effect on a server, which has its own providers, secrets and limits"
            ))
            .hint(format!("remove {option}, or run it without the server"))),
        }
    }

    /// The addresses that HTTP nodes may reach.
    pub(crate) fn outbound(&self) -> Result<Outbound, Failure> {
        let entries = self.allow_http.iter().map(String::as_str);
        let allowed = Allowed::parse(entries).map_err(|error| {
            let typed = quoted(&self.allow_http.join(","));
            Failure::new(format!("--allow-http {typed} is not an address")).hint(error.to_string())
        })?;
        Ok(Outbound::new(allowed))
    }

    /// Which models nodes may ask.
    pub(crate) fn models(&self) -> Result<Providers, Failure> {
        match &self.providers {
            None => Ok(Providers::default()),
            Some(file) => Providers::read(file).map_err(|error| {
                Failure::new(format!("--providers cannot be used: {error}"))
                    .hint("docs/reference/workflows.md describes the file")
            }),
        }
    }

    /// The tenants that may run programs.
    pub(crate) fn programs(&self, session: &Session) -> Programs {
        let secret = self.secrets.iter().chain(&self.providers);
        Programs {
            data: session.place.data.clone(),
            tenants: self.allow_programs.iter().cloned().collect(),
            fallback: if self.allow_unconfined_programs {
                Fallback::Unconfined
            } else {
                Fallback::Refuse
            },
            secret: secret.cloned().collect(),
            project: session.place.project.clone(),
            own: None,
        }
    }

    /// Which secrets nodes may use.
    pub(crate) fn secrets(&self, session: &Session) -> SecretSources {
        let allowed = match self.secret_env.as_slice() {
            [] => AllowedNames::Prefix(env::SECRET_PREFIX.into()),
            names => AllowedNames::Listed(names.iter().cloned().collect()),
        };
        let folder = self.secrets.clone();
        let folder = folder.unwrap_or_else(|| session.place.secrets());
        SecretSources::none()
            .with_env(EnvSecrets::new(session.tenant.clone(), allowed))
            .with_files(FileSecrets::new(folder))
    }
}
