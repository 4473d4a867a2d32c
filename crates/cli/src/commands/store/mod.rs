//! `runwright store`: a store as a whole.

mod copy;
mod status;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;
use store::StoreError;
use store::whole::{Opening, WholeStore};
use store_postgres::{Address, PostgresStore};
use store_sqlite::{Access, Options, Sharing, SqliteStore};

use crate::database::Named;
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::session::Session;

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Copy a store that no server uses into a new one: from a folder to a database, or back
    Copy(copy::Args),
    /// Show sizes, delays and live servers of the store
    Status(status::Args),
}

/// Carries out the command.
pub(super) async fn dispatch(command: Command, session: &Session) -> Result<Exit, Failure> {
    match command {
        Command::Copy(args) => copy::run(args, session).await,
        Command::Status(args) => status::run(&args, session).await,
    }
}

/// Where a store is.
enum Site {
    Database(Address),
    Folder(Place),
}

impl Site {
    /// Reads a typed URL or folder.
    fn parse(typed: &str) -> Result<Self, Failure> {
        Ok(match Named::parse(typed)? {
            Named::Database(address) => Self::Database(address),
            Named::Folder(folder) => Self::Folder(Place::find(None, Some(&folder))?),
        })
    }

    /// The store that the options of every command name.
    fn of_session(session: &Session) -> Self {
        match &session.database {
            Some(address) => Self::Database(address.clone()),
            None => Self::Folder(session.place.clone()),
        }
    }

    /// Its name without a password.
    fn name(&self) -> String {
        match self {
            Self::Database(address) => address.to_string(),
            Self::Folder(place) => place.data.display().to_string(),
        }
    }

    /// The folder of a store in a file.
    fn folder(&self) -> Option<&Path> {
        match self {
            Self::Database(_) => None,
            Self::Folder(place) => Some(&place.data),
        }
    }

    /// Opens the store to copy it, or another one into it. No other process may use it meanwhile.
    async fn open(&self, how: Opening) -> Result<Arc<dyn WholeStore>, Failure> {
        match (self, how) {
            (Self::Database(address), how) => {
                let options = store_postgres::Options::default();
                let opened = match how {
                    Opening::Source => PostgresStore::open(address, writing(options)).await,
                    Opening::Destination => PostgresStore::open_destination(address, options).await,
                };
                Ok(Arc::new(self.opened(opened)?))
            }
            (Self::Folder(place), Opening::Source) => {
                if place.is_served()? {
                    return Err(Failure::new(format!(
                        "a server uses the store in {}",
                        self.name()
                    ))
                    .hint("stop the server first; nothing is lost while it is stopped"));
                }
                let options = Options {
                    access: Access::Write,
                    sharing: Sharing::Exclusive,
                    ..Options::default()
                };
                Ok(Arc::new(
                    self.opened(SqliteStore::open(file(place)?, options))?,
                ))
            }
            (Self::Folder(place), Opening::Destination) => {
                place.create()?;
                place.begin_store();
                place.tighten();
                let opened = SqliteStore::open_destination(place.store(), Options::default()).await;
                Ok(Arc::new(self.opened(opened)?))
            }
        }
    }

    /// Opens the store to look at it. Others may write meanwhile.
    async fn open_to_look(&self) -> Result<Arc<dyn WholeStore>, Failure> {
        Ok(match self {
            Self::Database(address) => {
                let options = store_postgres::Options {
                    access: store_postgres::Access::Read,
                    ..store_postgres::Options::default()
                };
                Arc::new(self.opened(PostgresStore::open(address, options).await)?)
            }
            Self::Folder(place) => {
                let options = Options {
                    access: Access::Read,
                    ..Options::default()
                };
                Arc::new(self.opened(SqliteStore::open(file(place)?, options))?)
            }
        })
    }

    /// Adds the store's name to a failure.
    fn opened<T>(&self, opened: Result<T, StoreError>) -> Result<T, Failure> {
        opened.map_err(|error| match Failure::from(error) {
            Failure::Said { what, hint } => Failure::Said {
                what: format!("{}: {what}", self.name()),
                hint,
            },
            other => other,
        })
    }
}

fn writing(options: store_postgres::Options) -> store_postgres::Options {
    store_postgres::Options {
        access: store_postgres::Access::Write,
        ..options
    }
}

fn file(place: &Place) -> Result<PathBuf, Failure> {
    let path = place.store();
    if path.exists() {
        return Ok(path);
    }
    Err(
        Failure::new(format!("no store in {}", place.data.display()))
            .hint("name the folder that has the file store.db"),
    )
}
