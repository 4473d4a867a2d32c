//! The meaning of the global options: where to work, how to print.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use kernel::ids::TenantId;
use runtime::door::Door;
use runtime::hints::Hints;
use runtime::nodes::Registry;
use runtime::plans::Plans;
use store::Store;
use store_postgres::Address;
use store_sqlite::{Access, Durability, Options, SqliteStore};

use crate::database::{self, Named};
use crate::env;
use crate::exit::Failure;
use crate::next;
use crate::place::Place;
use crate::remote::Remote;

/// Options of every command, as typed.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Typed {
    /// Folder of the store [default: .runwright in the project folder]
    #[arg(long, global = true, value_name = "DIR", env = env::DATA, hide_env = true)]
    data: Option<PathBuf>,

    /// PostgreSQL database with the store, as postgres://user@host/database; a folder has the same
    /// meaning as with --data
    #[arg(long, global = true, value_name = "URL", env = env::STORE, hide_env = true,
          hide_env_values = true)]
    store: Option<String>,

    /// Folder the workflow's processes work in [default: the nearest one, from here up, that has
    /// a .runwright folder or a runwright.toml; else this one]
    #[arg(long, global = true, value_name = "DIR", env = env::PROJECT, hide_env = true)]
    project: Option<PathBuf>,

    /// Whether a write is synced to disk before it is acknowledged; `relaxed` is faster, but a
    /// power cut may lose the last moments
    #[arg(long, global = true, value_name = "WHEN", default_value = "full")]
    durability: Safety,

    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: Colour,

    /// A server to use instead of a store, as http://127.0.0.1:8080: for run, events and most of
    /// runs; commands that work on a store reject this option
    #[arg(long, global = true, value_name = "URL", env = env::SERVER, hide_env = true)]
    server: Option<String>,

    /// The API key for --server
    #[arg(long, global = true, value_name = "KEY", env = env::KEY, hide_env = true,
          hide_env_values = true)]
    key: Option<String>,

    /// Print data as JSON
    #[arg(long, global = true)]
    json: bool,
}

impl Typed {
    /// The same without a server to use.
    pub(crate) fn without_server(self) -> Self {
        Self {
            server: None,
            ..self
        }
    }

    /// The database of the store, or the data folder, where one is named.
    fn store(&self) -> Result<(Option<Address>, Option<PathBuf>), Failure> {
        let data = self.data.clone();
        let Some(store) = self.store.as_deref().filter(|store| !store.is_empty()) else {
            return Ok((None, data));
        };
        match (Named::parse(store)?, self.durability) {
            (Named::Database(_), Safety::Relaxed) => Err(Failure::new(
                "--durability relaxed is for a store in a folder; a database waits for its disk",
            )
            .hint("leave --durability out")),
            (Named::Database(address), Safety::Full) => Ok((Some(address), data)),
            (Named::Folder(folder), _) if data.as_ref().is_none_or(|data| *data == folder) => {
                Ok((None, Some(folder)))
            }
            (Named::Folder(_), _) => Err(Failure::new("--store and --data name two folders")
                .hint("leave one of them out; RUNWRIGHT_STORE and RUNWRIGHT_DATA count too")),
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Colour {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Safety {
    /// Every write waits for the disk
    Full,
    /// Writes do not wait for the disk
    Relaxed,
}

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// The evaluated options.
pub(crate) struct Session {
    /// Where to work.
    pub place: Place,
    /// The output format.
    pub form: Form,
    /// The condition for a durable write.
    pub durability: Durability,
    /// The database that has the store, instead of the data folder.
    pub database: Option<Address>,
    /// The tenant of the runs and workflows that this process creates.
    pub tenant: TenantId,
    /// The node types of this program.
    pub nodes: Arc<Registry>,
    /// The server to use instead of a store.
    pub remote: Option<Remote>,
}

impl Session {
    /// Evaluates the options.
    pub(crate) fn new(typed: &Typed) -> Result<Self, Failure> {
        match typed.color {
            // The conventions (NO_COLOR and others) decide.
            Colour::Auto => {}
            Colour::Always => anstream::ColorChoice::Always.write_global(),
            Colour::Never => anstream::ColorChoice::Never.write_global(),
        }
        let remote = match typed.server.as_deref().filter(|server| !server.is_empty()) {
            Some(server) => Some(Remote::new(server, typed.key.clone())?),
            None => None,
        };
        let (database, data) = typed.store()?;
        next::remember(
            data.as_deref(),
            typed.project.as_deref(),
            database.as_ref().and(typed.store.as_deref()),
            remote.as_ref().map(Remote::place),
        );
        Ok(Self {
            place: Place::find(typed.project.as_deref(), data.as_deref())?,
            form: if typed.json { Form::Json } else { Form::Text },
            durability: match typed.durability {
                Safety::Full => Durability::Full,
                Safety::Relaxed => Durability::Relaxed,
            },
            database,
            tenant: TenantId::new("local"),
            nodes: Arc::new(Registry::standard()),
            remote,
        })
    }

    /// Refuses a command that needs a store where a server is named.
    pub(crate) fn check_no_server(&self) -> Result<(), Failure> {
        match self.remote {
            None => Ok(()),
            Some(_) => Err(
                Failure::new("this command works on a store, not on a server")
                    .hint("remove --server and RUNWRIGHT_SERVER, and name the store with --data"),
            ),
        }
    }

    /// Opens the store to read it. Other processes may write meanwhile.
    pub(crate) fn read(&self) -> Result<Door, Failure> {
        self.open(Access::Read)
    }

    /// Opens a store that exists, to change it.
    pub(crate) fn write(&self) -> Result<Door, Failure> {
        self.open(Access::Write)
    }

    /// Opens the store, creating it if it is missing.
    pub(crate) fn create(&self) -> Result<Door, Failure> {
        self.check_no_server()?;
        self.place.create()?;
        self.open(Access::Create)
    }

    /// The database or the folder of the store.
    pub(crate) fn store_name(&self) -> String {
        match &self.database {
            Some(address) => address.to_string(),
            None => self.place.data.display().to_string(),
        }
    }

    /// Whether there is a store to open. One in a database is only known to be there once it is
    /// open.
    pub(crate) fn may_have_store(&self) -> bool {
        self.database.is_some() || self.place.store().exists()
    }

    fn open(&self, access: Access) -> Result<Door, Failure> {
        self.check_no_server()?;
        let hints = Hints::default();
        let store = match &self.database {
            Some(address) => database::open(address, access, &hints)?,
            None => self.open_file(access)?,
        };
        Ok(Door::new(
            store,
            Arc::new(Plans::new(self.nodes.clone())),
            hints,
        ))
    }

    fn open_file(&self, access: Access) -> Result<Arc<dyn Store>, Failure> {
        let path = self.place.store();
        if access != Access::Create && !path.exists() {
            let what = format!("no store in {}", self.place.data.display());
            return Err(Failure::new(what)
                .hint("start one with `runwright run FILE`, or name another folder with --data"));
        }
        let options = Options {
            access,
            durability: self.durability,
            ..Options::default()
        };
        if access == Access::Create {
            self.place.begin_store();
        }
        self.place.tighten();
        let store =
            SqliteStore::open(&path, options).map_err(|error| match Failure::from(error) {
                Failure::Said { what, hint } => Failure::Said {
                    what: format!("{}: {what}", path.display()),
                    hint,
                },
                other => other,
            })?;
        Ok(Arc::new(store))
    }
}
