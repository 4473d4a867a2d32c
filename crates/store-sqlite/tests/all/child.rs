//! This test binary as another process.
//!
//! A test starts it again with a role in the environment and reads its output, one line per action.
//! Lines carry a mark, because the test runner prints to the same place.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use kernel::ids::{HolderId, StreamId};
use store::{Guard, LeaseChange, Store, StoreError};
use store_sqlite::{Durability, Options, SqliteStore};
use tokio::task::JoinSet;

use crate::bed::{Log, block_on};

const ROLE: &str = "STORE_TEST_ROLE";
const NAME: &str = "STORE_TEST_NAME";
const STORE: &str = "STORE_TEST_PATH";
const MARK: &str = "@said ";

/// The work of another process with the store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    /// Appends to a stream of its own, one at a time: `appended <stream> <events>`.
    Append { times: u64, durability: Durability },
    /// Appends from several tasks, to streams of its own and to one all processes share, until
    /// it is killed; `appended <stream> <events> <content>`.
    Load,
    /// Appends `times` events to the shared stream, against others: `won <seq>`.
    Race { times: u64 },
    /// Tries to claim each of `streams` streams once: `held <stream> <epoch>`.
    Claim { streams: u64 },
}

impl Role {
    fn text(self) -> String {
        match self {
            Self::Append {
                times,
                durability: Durability::Full,
            } => format!("append {times}"),
            Self::Append {
                times,
                durability: Durability::Relaxed,
            } => format!("relaxed {times}"),
            Self::Load => "load 0".into(),
            Self::Race { times } => format!("race {times}"),
            Self::Claim { streams } => format!("claim {streams}"),
        }
    }

    fn parse(text: &str) -> Self {
        let (role, n) = text.split_once(' ').expect("a role and a number");
        let n: u64 = n.parse().expect("a number");
        match role {
            "append" => Self::Append {
                times: n,
                durability: Durability::Full,
            },
            "relaxed" => Self::Append {
                times: n,
                durability: Durability::Relaxed,
            },
            "load" => Self::Load,
            "race" => Self::Race { times: n },
            "claim" => Self::Claim { streams: n },
            other => panic!("there is no role {other}"),
        }
    }
}

/// The command that starts this binary in a role.
pub(crate) fn command(mut of: Command, role: Role, name: &str, store: &Path) -> Command {
    of.args(["--exact", "child::in_a_role", "--nocapture"])
        .env(ROLE, role.text())
        .env(NAME, name)
        .env(STORE, store)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    of
}

/// Another process.
pub(crate) struct Process {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Process {
    pub(crate) fn start(role: Role, name: &str, store: &Path) -> Self {
        let this = std::env::current_exe().expect("a test knows its binary");
        let mut child = command(Command::new(this), role, name, store)
            .spawn()
            .expect("the binary starts again");
        let said = BufReader::new(child.stdout.take().expect("its output is piped"));
        Self { child, said }
    }

    /// The next line of its output; `None` once it has ended.
    pub(crate) fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self
                .said
                .read_line(&mut line)
                .expect("the pipe can be read")
                == 0
            {
                return None;
            }
            // A line that the kill cut short does not count.
            if let (Some((_, said)), true) = (line.split_once(MARK), line.ends_with('\n')) {
                return Some(said.trim_end().to_owned());
            }
        }
    }

    /// Kills it with SIGKILL and returns the remaining lines.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().expect("it can be killed");
        let rest = std::iter::from_fn(|| self.hear()).collect();
        self.child.wait().expect("it has ended");
        rest
    }

    /// Waits for its end and returns all remaining lines.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let said = std::iter::from_fn(|| self.hear()).collect();
        let status = self.child.wait().expect("it has ended");
        assert!(status.success(), "the process failed");
        said
    }
}

/// Prints a line in one write, so that processes and threads do not mix their lines.
fn say(text: &str) {
    let line = format!("{MARK}{text}\n");
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes())
        .expect("the pipe takes a line");
    out.flush().expect("the pipe takes a line");
}

/// Not a test: the roles. Does nothing without a role in the environment.
#[test]
fn in_a_role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let name = std::env::var(NAME).expect("a process has a name");
    let path = std::env::var(STORE).expect("a process has a store");
    block_on(async {
        let open = |durability| {
            let options = Options {
                durability,
                ..Options::default()
            };
            SqliteStore::open(&path, options).expect("the store opens")
        };
        match Role::parse(&role) {
            Role::Append { times, durability } => append(open(durability), &name, times).await,
            Role::Load => load(open(Durability::Full), &name).await,
            Role::Race { times } => race(open(Durability::Full), &name, times).await,
            Role::Claim { streams } => claim(open(Durability::Full), &name, streams).await,
        }
    });
}

async fn append(store: SqliteStore, name: &str, times: u64) {
    let mut log = Log::new(name);
    for n in 0..times {
        let done = log.append(&store, &[format!("event {n}")]).await;
        done.expect("nobody else appends");
        say(&format!("appended {name} {}", log.next_seq));
    }
}

/// The stream that all processes append to.
pub(crate) const SHARED: &str = "run-shared";

async fn load(store: SqliteStore, name: &str) {
    let store = Arc::new(store);
    let mut tasks = JoinSet::new();
    for task in 0..4 {
        let (store, own) = (Arc::clone(&store), format!("{name}-{task}"));
        tasks.spawn(async move {
            let mut log = Log::new(&own);
            loop {
                let content = format!("{own} {}", log.next_seq);
                let done = log.append(&*store, std::slice::from_ref(&content)).await;
                done.expect("nobody else appends");
                say(&format!("appended {own} {} {content}", log.next_seq));
                if task == 0 {
                    let seq = append_shared(&store, &content).await;
                    say(&format!("appended {SHARED} {} {content}", seq + 1));
                }
            }
        });
    }
    let ended = tasks.join_next().await.expect("there are tasks");
    ended.expect("they go on until the process is killed")
}

/// Appends to the shared stream, retrying while others are first; returns the sequence won.
async fn append_shared(store: &SqliteStore, content: &str) -> u64 {
    loop {
        let mut log = match Log::find(store, SHARED).await {
            Ok(log) => log,
            Err(StoreError::Missing) => Log::new(SHARED),
            Err(other) => panic!("{other}"),
        };
        match log.append(store, &[content.to_owned()]).await {
            Ok(()) => return log.next_seq - 1,
            Err(StoreError::Conflict(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

async fn race(store: SqliteStore, name: &str, times: u64) {
    for n in 0..times {
        let seq = append_shared(&store, &format!("{name} {n}")).await;
        say(&format!("won {seq} {name} {n}"));
    }
}

async fn claim(store: SqliteStore, name: &str, streams: u64) {
    let hour = std::time::Duration::from_secs(3_600);
    for n in 0..streams {
        let stream = StreamId::new(format!("run-{n}"));
        match store.claim(&stream, &HolderId::new(name), hour).await {
            Ok(lease) => {
                // Only the holder may append.
                let log = Log::find(&store, stream.as_str())
                    .await
                    .expect("it is there");
                let batch = log.next(&[format!("driven by {name}")]).into();
                let guard = Guard::Holder(lease.epoch);
                let done = store.append(batch, guard, LeaseChange::Keep).await;
                done.expect("the holder may append");
                say(&format!("held {stream} {}", lease.epoch.0));
            }
            Err(StoreError::Conflict(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
}
