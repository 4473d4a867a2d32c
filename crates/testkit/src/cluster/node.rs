//! A PostgreSQL server that a test may kill with all its processes.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Signal, free_port, send};
use crate::postgres::{Account, OWNER, printed, programs, sql};

/// Kills a process and removes its folder if the test ends without a word.
const GUARD: &str = r#"read -r _ || { kill -KILL "$1"; rm -rf "$2"; }"#;

/// A PostgreSQL server in a folder of its own, on a port of its own.
pub struct Node {
    folder: PathBuf,
    programs: PathBuf,
    account: Account,
    port: u16,
    /// Its main process, and the guard of that.
    running: Option<[Child; 2]>,
}

impl Node {
    /// Creates the files of a server. `None` after a named skip where this
    /// machine has no PostgreSQL.
    ///
    /// # Panics
    /// When PostgreSQL is there and does not work.
    pub fn create() -> Option<Self> {
        let node = Self::without_files()?;
        let mut create = node.account.command(&node.programs.join("initdb"));
        create.args(["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]);
        create.args(["--username", OWNER, "--pgdata"]);
        printed(create.arg(node.data()));
        Some(node)
    }

    /// Creates a standby of a running server.
    ///
    /// # Panics
    /// When it cannot be copied.
    #[must_use]
    pub fn standby_of(primary: &Self) -> Self {
        let node = Self::without_files().expect("a copy needs the same programs");
        node.copy(primary);
        node
    }

    fn without_files() -> Option<Self> {
        static NODES: AtomicU32 = AtomicU32::new(0);
        let programs = programs()?;
        let number = NODES.fetch_add(1, Ordering::Relaxed);
        let name = format!("runwright-node-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        let account = Account::of_tests();
        account.own(&folder);
        Some(Self {
            folder,
            programs,
            account,
            port: free_port(),
            running: None,
        })
    }

    /// Makes this ended server a standby of a running one.
    ///
    /// # Panics
    /// When it cannot be copied.
    pub fn copy(&self, primary: &Self) {
        if self.data().exists() {
            std::fs::remove_dir_all(self.data()).expect("an ended server can be removed");
        }
        let copy = self.programs.join("pg_basebackup");
        let mut copy = self.account.command(&copy);
        copy.args(["--checkpoint=fast", "--no-sync", "--write-recovery-conf"]);
        copy.arg("--dbname").arg(primary.url("postgres"));
        printed(copy.arg("--pgdata").arg(self.data()));
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Its port on the loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of one of its databases.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{OWNER}@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs SQL in the database `postgres`; returns what it prints.
    ///
    /// # Panics
    /// When a statement fails.
    pub fn sql(&self, script: &str) -> String {
        sql(&self.url("postgres"), script)
    }

    /// Starts it, and waits until it takes connections.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(&mut self) {
        self.start_with(&[]);
    }

    /// The same with more settings, such as `work_mem=64MB`.
    ///
    /// # Panics
    /// As [`Node::start`].
    pub fn start_with(&mut self, settings: &[&str]) {
        let log = std::fs::File::create(self.folder.join("log")).expect("a file can be made");
        let mut start = self.account.command(&self.programs.join("postgres"));
        start.arg("-D").arg(self.data());
        let port = format!("port={}", self.port);
        let sockets = format!("unix_socket_directories={}", self.folder.display());
        for setting in [
            port.as_str(),
            &sockets,
            "listen_addresses=127.0.0.1",
            "max_connections=300",
            "wal_level=replica",
            "wal_sender_timeout=5s",
            "wal_receiver_timeout=5s",
            "wal_retrieve_retry_interval=200ms",
            "max_wal_size=4GB",
        ]
        .iter()
        .chain(settings)
        {
            start.args(["-c", setting]);
        }
        let start = start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut child = start.spawn().expect("PostgreSQL can be started");
        // Each attempt starts a program.
        let mut ready = Command::new(self.programs.join("pg_isready"));
        ready.args(["--quiet", "--host=127.0.0.1", "--port"]);
        ready.arg(self.port.to_string());
        while !ready.status().is_ok_and(|status| status.success()) {
            let ended = child.try_wait().expect("a child can be asked for its end");
            let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(ended.is_none(), "PostgreSQL does not start:\n{}", log());
        }
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "sh", &child.id().to_string()]);
        let guard = guard.arg(&self.folder).stdin(Stdio::piped());
        let guard = guard.spawn().expect("a shell can be started");
        self.running = Some([child, guard]);
    }

    /// Kills all its processes at once, as a power cut does.
    ///
    /// # Panics
    /// When it does not end.
    pub fn kill(&mut self) {
        let Some([mut main, mut guard]) = self.running.take() else {
            return;
        };
        let mut word = guard.stdin.take().expect("its input is piped");
        word.write_all(b"done\n").expect("a guard reads a line");
        guard.wait().expect("a guard ends after its line");
        // Frozen, it starts no process meanwhile.
        send(Signal::Stop, &[main.id()]);
        let mut all = children_of(main.id());
        all.push(main.id());
        send(Signal::Kill, &all);
        main.wait().expect("a killed child ends");
        // The next start is refused while one of them is left.
        all.pop();
        while all.iter().any(|pid| parent_of(*pid).is_some()) {
            std::thread::yield_now();
        }
    }

    /// Makes a standby the primary.
    ///
    /// # Panics
    /// When it is not promoted.
    pub fn promote(&self) {
        let promoted = self.sql("SELECT pg_promote(true, 60)");
        assert_eq!(promoted, "t", "the standby was not promoted");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn children_of(pid: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("this is Linux").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|child| parent_of(*child) == Some(pid))
        .collect()
}

/// The parent of a living process. `None` for a zombie: it has released its files.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before the last parenthesis may contain anything.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (state != "Z").then_some(parent)
}
