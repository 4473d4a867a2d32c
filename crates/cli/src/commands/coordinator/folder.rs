//! A state directory: our store is authoritative, the published files are views of it.

use std::fs::File;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kernel::coordinator::{Contract, Coordinator, CoordinatorCommand, Event, LeaseRule};
use kernel::ids::Seq;
use kernel::time::Timestamp;
use runtime::door::{CommandResult, CoordinatorError, CoordinatorName, CoordinatorOrder, Door};
use runtime::hints::Hints;
use runtime::nodes::Registry;
use runtime::plans::Plans;
use runtime::private;
use rustix::fs::{FlockOperation, flock};
use store::memory::MemoryStore;
use store::{Guard, LeaseChange, ReadFrom, Store, StoreError, SystemClock};
use store_sqlite::{Access, SqliteStore};

use super::import::Found;
use super::keeper::Keeper;
use super::options::{Options, Queue, ViewChoice};
use super::{Refused, import};
use crate::place::Place;

/// The tenant of a state directory's coordinator.
pub(super) const TENANT: &str = "local";
/// Its name.
pub(super) const NAME: &str = "runtime";

/// Held during the whole of a changing command: commands are serial.
pub(super) const MUTATION_LOCK: &str = "runtime-mutation.lock";
/// Held while reading or writing the files that form one state.
pub(super) const ENGINE_LOCK: &str = "engine.lock";

/// An open state directory.
pub(super) struct Folder {
    /// The directory.
    pub path: PathBuf,
    /// The folder of the store in it.
    pub data: PathBuf,
    door: Door,
    named: CoordinatorName,
    threads: tokio::runtime::Runtime,
    /// The requested contract.
    contract: Option<Contract>,
    /// The state belongs to another program and is not taken over.
    pub is_left: bool,
    /// Writes the files if this process is killed before it does, where files are written.
    keeper: Option<Keeper>,
    /// Released with the command, or the end of its process.
    _mutation: Option<File>,
}

impl Folder {
    /// Opens a directory to change it, creating it if it is missing, and takes over another
    /// program's state.
    pub(super) fn open(path: &Path, options: &Options) -> Result<Self, Refused> {
        let fail = |error: std::io::Error| Refused(format!("io error: {error}"));
        private::folder(path).map_err(fail)?;
        let lock = lock(path, MUTATION_LOCK, FlockOperation::LockExclusive).map_err(fail)?;
        let keeper = match options.views {
            ViewChoice::All => Some(Keeper::start(path, options.rule).map_err(fail)?),
            ViewChoice::None => None,
        };
        let mut folder = Self::with_store(path, Access::Create, options)?;
        folder._mutation = Some(lock);
        folder.keeper = keeper;
        import::take_over(&folder).map_err(import::unloadable)?;
        Ok(folder)
    }

    /// Opens a directory to read it. Another program's state is read as if it were taken over, and
    /// nothing is written: the first command takes it over, and sets the contract from then on.
    pub(super) fn read(path: &Path, options: &Options) -> Result<Self, Refused> {
        let fail = |error: std::io::Error| Refused(format!("io error: {error}"));
        if !path.is_dir() {
            let missing = std::io::Error::from(rustix::io::Errno::NOENT);
            return Err(fail(missing));
        }
        let folder = match store_file(path).exists() {
            true => Self::with_store(path, Access::Read, options)?,
            false if import::is_state(path) => Self::in_memory(path, options)?,
            false => {
                let missing = std::io::Error::from(rustix::io::Errno::NOENT);
                return Err(fail(missing));
            }
        };
        match import::look(&folder)? {
            Found::Nothing => Ok(folder),
            Found::Known(coordinator) => folder.agrees(&coordinator).map(|()| folder),
            Found::Left(import) => {
                let folder = Self::in_memory(path, options)?;
                import::append(&folder, import)?;
                Ok(folder)
            }
        }
    }

    /// A store in memory, which ends with the process.
    fn in_memory(path: &Path, options: &Options) -> Result<Self, Refused> {
        let place = Self::place(path);
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let mut folder = Self::over(place, store, Self::own_name(options), options.contract)?;
        folder.is_left = true;
        Ok(folder)
    }

    /// Opens a queue in the store of a server, to read it.
    pub(super) fn queue(queue: &Queue) -> Result<Self, Refused> {
        let place = Place {
            project: queue.data.clone(),
            data: queue.data.clone(),
        };
        let named = CoordinatorName {
            tenant: queue.tenant.as_str().into(),
            name: queue.name.clone(),
            contract: Contract::Native,
        };
        let store = Self::store(&place, Access::Read)?;
        Self::over(place, store, named, None)
    }

    fn with_store(path: &Path, access: Access, options: &Options) -> Result<Self, Refused> {
        let place = Self::place(path);
        let store = Self::store(&place, access)?;
        Self::over(place, store, Self::own_name(options), options.contract)
    }

    fn place(path: &Path) -> Place {
        Place {
            project: path.to_owned(),
            data: data(path),
        }
    }

    fn own_name(options: &Options) -> CoordinatorName {
        CoordinatorName {
            tenant: TENANT.into(),
            name: NAME.to_owned(),
            contract: options.first_contract(),
        }
    }

    fn store(place: &Place, access: Access) -> Result<Arc<dyn Store>, Refused> {
        if access == Access::Create {
            place
                .create()
                .map_err(|failure| Refused(failure.to_string()))?;
            place.begin_store();
            place.tighten();
        }
        let options_of_store = store_sqlite::Options {
            access,
            ..store_sqlite::Options::default()
        };
        let store = SqliteStore::open(place.store(), options_of_store)
            .map_err(|error| Refused(format!("io error: {error}")))?;
        Ok(Arc::new(store))
    }

    fn over(
        place: Place,
        store: Arc<dyn Store>,
        named: CoordinatorName,
        contract: Option<Contract>,
    ) -> Result<Self, Refused> {
        let threads = tokio::runtime::Builder::new_current_thread()
            .build()
            .map_err(|error| Refused(format!("io error: {error}")))?;
        let plans = Arc::new(Plans::new(Arc::new(Registry::standard())));
        Ok(Self {
            path: place.project,
            data: place.data,
            door: Door::new(store, plans, Hints::default()),
            named,
            threads,
            contract,
            is_left: false,
            keeper: None,
            _mutation: None,
        })
    }

    /// Blocks on an operation of the store.
    pub(super) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.threads.block_on(work)
    }

    /// The store's door.
    pub(super) fn door(&self) -> &Door {
        &self.door
    }

    /// The current coordinator.
    pub(super) fn coordinator(&self) -> Result<Coordinator, StoreError> {
        self.wait(self.door.coordinator(&self.named))
    }

    /// The same, with an error for the command line.
    pub(super) fn standing_now(&self) -> Result<Coordinator, Refused> {
        self.coordinator()
            .map_err(|error| Refused(format!("io error: {error}")))
    }

    /// An error if another contract was requested than is in force.
    pub(super) fn agrees(&self, coordinator: &Coordinator) -> Result<(), Refused> {
        agrees(self.contract, coordinator.contract())
    }

    /// Begins the log if it is empty and a contract was requested.
    pub(super) fn settle(&self) -> Result<(), Refused> {
        let coordinator = self.standing_now()?;
        if self.contract.is_none() || coordinator.next_seq() > 0 {
            return Ok(());
        }
        let store = self.door.store();
        let batch = coordinator.open(store.now());
        self.wait(store.append(batch, Guard::Outside, LeaseChange::Keep))
            .map(drop)
            .map_err(|error| Refused(format!("io error: {error}")))
    }

    /// Releases the lock on the directory while nothing is changed here.
    pub(super) fn let_go(&mut self) {
        self._mutation = None;
        if let Some(keeper) = &self.keeper {
            keeper.unlock();
        }
    }

    /// Takes the lock on a released directory again, until the result is dropped.
    pub(super) fn take_again(&self) -> std::io::Result<Changing<'_>> {
        let mutation = lock(&self.path, MUTATION_LOCK, FlockOperation::LockExclusive)?;
        if let Some(keeper) = &self.keeper {
            keeper.lock()?;
        }
        Ok(Changing {
            keeper: self.keeper.as_ref(),
            _mutation: mutation,
        })
    }

    /// Takes the lock of the files, unless it is held for the whole change.
    pub(super) fn lock_files(&self) -> std::io::Result<Option<File>> {
        match &self.keeper {
            Some(_) => Ok(None),
            None => lock(&self.path, ENGINE_LOCK, FlockOperation::LockExclusive).map(Some),
        }
    }

    /// The runtime, with the contract for its first command.
    fn named(&self, contract: Contract) -> CoordinatorName {
        CoordinatorName {
            contract,
            ..self.named.clone()
        }
    }

    /// The worker's last contact over HTTP, where it is recorded.
    pub(super) fn worker_seen(&self, worker: &str) -> Result<Option<Timestamp>, StoreError> {
        self.wait(self.door.worker_seen(&self.named, &worker.into()))
    }

    /// Sends it a command.
    pub(super) fn tell(
        &self,
        contract: Contract,
        command: &CoordinatorCommand,
        rule: LeaseRule,
    ) -> Result<CommandResult, CoordinatorError> {
        let named = self.named(contract);
        self.wait(self.door.tell_coordinator(&named, command, rule))
    }

    /// Sends it several commands at once.
    pub(super) fn tell_all(
        &self,
        contract: Contract,
        orders: &[CoordinatorOrder],
    ) -> Vec<Result<CommandResult, CoordinatorError>> {
        let named = self.named(contract);
        self.wait(self.door.tell_coordinator_all(&named, orders))
    }

    /// Its events from a sequence on.
    pub(super) fn events(&self, from: Seq) -> Result<Vec<Event>, StoreError> {
        let stream = Coordinator::stream(&self.named.tenant, &self.named.name);
        let loaded = (self.door.store()).load(&stream, ReadFrom::Seq(from), usize::MAX);
        let records = match self.wait(loaded) {
            Ok(loaded) => loaded.records,
            Err(StoreError::Missing) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        records
            .iter()
            .map(|record| {
                serde_json::from_slice(&record.content).map_err(|_| {
                    StoreError::Corrupt("an event of the runtime does not read".into())
                })
            })
            .collect()
    }
}

/// A directory that a long-running process is changing.
pub(super) struct Changing<'a> {
    keeper: Option<&'a Keeper>,
    _mutation: File,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper {
            keeper.unlock();
        }
    }
}

/// An error if another contract was requested than is in force: requested options are never
/// ignored.
pub(super) fn agrees(asked: Option<Contract>, kept: Contract) -> Result<(), Refused> {
    match asked.filter(|asked| *asked != kept) {
        None => Ok(()),
        Some(asked) => Err(format!(
            "contract error: contract_settled: this state directory keeps the {kept} contract; \
             remove --contract={asked}, or use another directory"
        )
        .into()),
    }
}

/// The folder of our store within a state directory.
pub(super) fn data(path: &Path) -> PathBuf {
    path.join(".runwright")
}

/// The file of our store within a state directory.
pub(super) fn store_file(path: &Path) -> PathBuf {
    data(path).join("store.db")
}

/// Takes a lock of the directory, as long as the file is open.
pub(super) fn lock(dir: &Path, name: &str, how: FlockOperation) -> std::io::Result<File> {
    let file = open_lock(dir, name)?;
    flock_whole(&file, how)?;
    Ok(file)
}

/// Opens the file of a lock, creating it if it is missing.
pub(super) fn open_lock(dir: &Path, name: &str) -> std::io::Result<File> {
    private::file()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(dir.join(name))
}

/// Takes a lock, with any wait.
pub(super) fn flock_whole(file: &File, how: FlockOperation) -> std::io::Result<()> {
    loop {
        match flock(file, how) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
