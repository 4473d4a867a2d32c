//! A PostgreSQL server for tests, shared by all test processes of a user.
//!
//! The first test that needs it starts it in a folder of its own, reachable through a socket in
//! that folder only. It runs as the user `postgres` where the tests run as root. A small shell
//! process stops it and removes the folder soon after the last test process has ended.

use std::fs::File;
use std::io::Error;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::skip;

/// The role that owns the server.
pub(crate) const OWNER: &str = "runwright";

/// Stops the server when no process has locked the file of users for a while.
const STOP: &str = r#"
while true; do
  flock --exclusive "$1/users" true || exit
  sleep 3
  flock --exclusive --nonblock "$1/users" sh -c '
    "$2" stop --mode=immediate --pgdata="$1/data"
    mv "$1/data" "$1/old.$$"' sh "$1" "$2" && break
done
rm -rf "$1"/old.*
"#;

/// A fresh, empty database; its URL. `None` after a named skip where this machine has no PostgreSQL.
///
/// # Panics
/// When PostgreSQL is there and does not work.
pub fn database() -> Option<String> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    static DATABASES: AtomicU64 = AtomicU64::new(0);
    let server = SERVER.get_or_init(Server::join).as_ref()?;
    let number = DATABASES.fetch_add(1, Ordering::Relaxed);
    let name = format!("test_{}_{number}", std::process::id());
    // A process id may come again while the server lives.
    server.query("postgres", &format!("DROP DATABASE IF EXISTS {name}"));
    server.query("postgres", &format!("CREATE DATABASE {name}"));
    Some(server.url(&name))
}

/// A fresh database where the tests are to run on PostgreSQL (`RUNWRIGHT_TEST_STORE`). `None` where
/// each test has the store that it usually has.
///
/// # Panics
/// As [`database`], and for another value of the variable.
pub fn database_of_tests() -> Option<String> {
    match std::env::var("RUNWRIGHT_TEST_STORE").as_deref() {
        Err(_) => None,
        Ok("postgres") => database(),
        Ok(other) => panic!("RUNWRIGHT_TEST_STORE is {other}; the only value is postgres"),
    }
}

/// Runs SQL in the database of a URL from [`database`], as the owner; returns what it prints.
///
/// # Panics
/// When a statement fails.
pub fn sql(url: &str, script: &str) -> String {
    printed(Command::new("psql").args([
        "-X",
        "-q",
        "-A",
        "-t",
        "-v",
        "ON_ERROR_STOP=1",
        "-d",
        url,
        "-c",
        script,
    ]))
}

struct Server {
    folder: PathBuf,
    /// Locked as long as this process may use the server.
    _user: File,
}

impl Server {
    /// Starts the server, or joins the one that runs.
    fn join() -> Option<Self> {
        let programs = programs()?;
        let folder = std::env::temp_dir().join(format!("runwright-postgres-{}", own_uid()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        let open = |name| {
            let mut options = File::options();
            options.create(true).append(true);
            options.open(folder.join(name)).expect("a file can be made")
        };
        let (start, user) = (open("start"), open("users"));
        start.lock().expect("a file can be locked");
        user.lock_shared().expect("a file can be locked");
        let account = Account::of_tests();
        // The file of a server that was killed with its machine says nothing.
        let mut status = account.command(&programs.join("pg_ctl"));
        let status = status
            .arg("status")
            .arg("--pgdata")
            .arg(folder.join("data"));
        let status = status.stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !status.is_ok_and(|status| status.success()) {
            begin(&folder, &programs, account);
        }
        drop(start);
        Some(Self {
            folder,
            _user: user,
        })
    }

    fn url(&self, database: &str) -> String {
        let folder = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres:///{database}?user={OWNER}&host={folder}")
    }

    fn query(&self, database: &str, script: &str) {
        sql(&self.url(database), script);
    }
}

/// The user that runs the server.
#[derive(Clone, Copy)]
pub(crate) enum Account {
    /// The same that runs the tests.
    Same,
    /// PostgreSQL refuses to run as root.
    Postgres,
}

impl Account {
    pub(crate) fn of_tests() -> Self {
        match own_uid() {
            0 => Self::Postgres,
            _ => Self::Same,
        }
    }

    /// Lets the user write in a folder.
    pub(crate) fn own(self, folder: &Path) {
        if let Self::Postgres = self {
            printed(Command::new("chown").arg("-R").arg("postgres").arg(folder));
        }
    }

    pub(crate) fn command(self, program: &Path) -> Command {
        let mut command = match self {
            Self::Same => Command::new(program),
            Self::Postgres => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]);
                command.arg(program);
                command
            }
        };
        // The other user may not be able to read this folder.
        command.current_dir("/");
        command
    }
}

fn own_uid() -> u32 {
    let own = std::fs::metadata("/proc/self");
    own.expect("this is Linux").uid()
}

/// The folder of the server's programs, the newest where there are several. `None` after a named
/// skip.
pub(crate) fn programs() -> Option<PathBuf> {
    let found = newest_programs();
    if found.is_none() {
        skip(
            "postgres",
            "PostgreSQL is not installed (Debian package postgresql)",
        );
    }
    found
}

fn newest_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = versions.filter_map(|version| Some(version.ok()?.path()));
    let whole = folders.filter(|folder| folder.join("bin/initdb").exists());
    let number = |folder: &PathBuf| folder.file_name()?.to_str()?.parse::<u32>().ok();
    Some(whole.max_by_key(number)?.join("bin"))
}

fn begin(folder: &Path, programs: &Path, account: Account) {
    let data = folder.join("data");
    // A server that was killed with its machine may have left a part of it.
    match std::fs::remove_dir_all(&data) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            panic!("the folder of an old server cannot be removed: {error}")
        }
        _ => {}
    }
    account.own(folder);
    let mut create = account.command(&programs.join("initdb"));
    create.args(["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]);
    create.args(["--username", OWNER, "--pgdata"]);
    printed(create.arg(&data));
    let settings = format!(
        "-c listen_addresses= -c unix_socket_directories={} -c max_connections=200",
        folder.display()
    );
    let mut start = account.command(&programs.join("pg_ctl"));
    start.args(["start", "--wait", "--silent", "--options", &settings]);
    start
        .arg("--log")
        .arg(folder.join("log"))
        .arg("--pgdata")
        .arg(&data);
    // Its output would stay open as long as the server.
    let started = start.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let log = || std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    assert!(
        started.is_ok_and(|status| status.success()),
        "PostgreSQL does not start:\n{}",
        log()
    );
    let mut stop = account.command(Path::new("setsid"));
    stop.args(["--fork", "sh", "-c", STOP, "sh"])
        .arg(folder)
        .arg(programs.join("pg_ctl"));
    stop.stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let stops = stop.status().expect("a shell can be started");
    assert!(
        stops.success(),
        "the shell that stops PostgreSQL does not start"
    );
}

pub(crate) fn printed(command: &mut Command) -> String {
    let name = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output();
    let failed = |why: String| -> String { panic!("{name}: {why}") };
    match output {
        Ok(Output { status, stdout, .. }) if status.success() => {
            String::from_utf8_lossy(&stdout).trim().to_owned()
        }
        Ok(output) => failed(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => failed(Error::to_string(&error)),
    }
}

/// A PgBouncer in transaction mode; it ends with its test.
pub struct Pooler {
    child: Child,
    folder: PathBuf,
    /// The database through the pooler.
    pub url: String,
}

impl Pooler {
    /// Starts a pooler for the database of a URL from [`database`]. `None` after a named skip where
    /// this machine has no PgBouncer.
    ///
    /// # Panics
    /// When PgBouncer is there and does not work.
    pub fn start(url: &str) -> Option<Self> {
        let Some(program) = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"]
            .map(Path::new)
            .into_iter()
            .find(|program| program.exists())
        else {
            skip(
                "pgbouncer",
                "PgBouncer is not installed (Debian package pgbouncer)",
            );
            return None;
        };
        let server = Server::join()?;
        let folder =
            std::env::temp_dir().join(format!("runwright-pgbouncer-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        let parameters = url.split(['?', '&']);
        let user = parameters
            .filter_map(|one| one.strip_prefix("user="))
            .next();
        let user = user.expect("the URL of a test names its user");
        let configuration = format!(
            "[databases]\n* = host={} user={user}\n[pgbouncer]\nunix_socket_dir = {}\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = 4\n",
            server.folder.display(),
            folder.display()
        );
        let file = folder.join("pgbouncer.ini");
        std::fs::write(&file, configuration).expect("a file can be made");
        let account = Account::of_tests();
        account.own(&folder);
        let mut start = account.command(program);
        start
            .arg("--quiet")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = start.spawn().expect("a pooler can be started");
        let place = folder.display().to_string().replace('/', "%2F");
        let (before, _) = url
            .rsplit_once("&host=")
            .expect("the URL of a test names its folder");
        let url = format!("{before}&host={place}&port=6432");
        // It listens soon; each attempt starts a program.
        while !Command::new("psql")
            .args(["-X", "-d", &url, "-c", ""])
            .output()
            .is_ok_and(|output| output.status.success())
        {
            let ended = child.try_wait().expect("a child can be asked for its end");
            assert!(ended.is_none(), "the pooler ended: {ended:?}");
        }
        Some(Self { child, folder, url })
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
