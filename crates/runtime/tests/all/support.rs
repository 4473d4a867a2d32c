//! Processes to start, and bounded waits for them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use kernel::ids::{AttemptId, AttemptKey, EffectKey, StreamId};
use runtime::keyring::FileKeyring;
use runtime::models::Providers;
use runtime::outbound::Outbound;
use runtime::supervisor::{DEFAULT_OUTPUT_LIMIT, Finish, Running, Seen, Spec, Stream, Supervisor};
use serde_json::json;

/// A test step that takes longer hangs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A folder for attempts and one to work in, removed at the end.
pub(crate) struct Lab {
    folder: tempfile::TempDir,
    pub(crate) supervisor: Supervisor,
    pub(crate) outbound: Outbound,
    pub(crate) models: Arc<Providers>,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        let program = PathBuf::from(env!("CARGO_BIN_EXE_runtime-test-host"));
        let supervisor = Supervisor {
            program,
            dir: folder.path().join("attempts"),
        };
        let outbound = Outbound::default();
        Self {
            folder,
            supervisor,
            outbound,
            models: Arc::default(),
        }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn keyring(&self) -> FileKeyring {
        FileKeyring::new(self.keyring_path())
    }

    pub(crate) fn keyring_path(&self) -> PathBuf {
        self.folder.path().join("keyring.json")
    }

    pub(crate) fn run(&self) -> StreamId {
        "run-1".into()
    }

    /// An attempt key no other test has, so that its processes can be counted.
    pub(crate) fn key(&self) -> AttemptKey {
        let name = self.folder.path().file_name().unwrap().to_str().unwrap();
        format!("attempt-{}", name.trim_start_matches('.')).into()
    }

    /// The key of the effect of an unlogged start.
    pub(crate) fn effect(&self) -> EffectKey {
        let attempt = AttemptId {
            node: "node".into(),
            visit: 0,
            attempt: 0,
        };
        attempt.effect_key(&self.run())
    }

    pub(crate) fn attempt_dir(&self) -> PathBuf {
        self.supervisor.dir.join("run-1").join(self.key().as_str())
    }

    /// A shell script as an attempt.
    pub(crate) fn script(&self, script: &str) -> Spec {
        self.spec(&["sh", "-c", script])
    }

    pub(crate) fn spec(&self, argv: &[&str]) -> Spec {
        Spec {
            run: self.run(),
            key: self.key(),
            restarts: 0,
            argv: argv.iter().map(|&arg| arg.to_owned()).collect(),
            env: environment(),
            cwd: self.work(),
            stdin: Vec::new(),
            timeout: None,
            grace: Duration::from_secs(5),
            output_limit: DEFAULT_OUTPUT_LIMIT,
            confinement: None,
        }
    }

    /// An engine of its own that runs a script as this lab's attempt.
    pub(crate) fn engine(&self, script: &str) -> Engine {
        let order = json!({
            "dir": self.supervisor.dir, "run": self.run(), "key": self.key(), "restarts": 0,
            "argv": ["sh", "-c", script], "env": environment(), "cwd": self.work(),
        });
        let mut child = Command::new(env!("CARGO_BIN_EXE_runtime-test-host"))
            .arg("engine")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        writeln!(child.stdin.take().unwrap(), "{order}").unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Engine { child, lines }
    }

    /// The ids of the living processes that carry this lab's attempt key.
    pub(crate) fn alive(&self) -> Vec<i32> {
        let variable = format!("WF_ATTEMPT_KEY={}", self.key());
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| {
                let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environment
                    .split(|&byte| byte == 0)
                    .any(|entry| entry == variable.as_bytes())
            })
            .collect()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.work().join(name)).unwrap_or_default()
    }
}

fn environment() -> BTreeMap<String, String> {
    BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())])
}

/// An engine process, killed at the end of the test if it still lives.
pub(crate) struct Engine {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Engine {
    /// Reads what the engine reports until a line contains `text`.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let mut line = String::new();
        while self.lines.read_line(&mut line).unwrap() > 0 {
            if line.contains(text) {
                return line;
            }
            line.clear();
        }
        panic!("the engine ended without saying {text}");
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The output of a process, and how it finished.
pub(crate) async fn collect(mut running: Running) -> (String, String, Finish) {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        match next(&mut running).await {
            Seen::Started { .. } | Seen::Stalled | Seen::Continues => {}
            Seen::Output(Stream::Stdout, bytes) => stdout.extend_from_slice(&bytes),
            Seen::Output(Stream::Stderr, bytes) => stderr.extend_from_slice(&bytes),
            Seen::Finished(finish) => {
                let text = |bytes| String::from_utf8(bytes).unwrap();
                return (text(stdout), text(stderr), finish);
            }
        }
    }
}

pub(crate) async fn next(running: &mut Running) -> Seen {
    tokio::time::timeout(DEADLINE, running.next())
        .await
        .expect("something is seen in time")
}

/// Waits until the output so far contains `text`.
pub(crate) async fn wait_for(running: &mut Running, text: &str) -> String {
    let mut output = String::new();
    loop {
        match next(running).await {
            Seen::Started { .. } | Seen::Stalled | Seen::Continues => {}
            Seen::Output(_, bytes) => output.push_str(std::str::from_utf8(&bytes).unwrap()),
            Seen::Finished(finish) => panic!("it was over without writing {text}: {finish:?}"),
        }
        if output.contains(text) {
            return output;
        }
    }
}

pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

pub(crate) fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// Waits without polling until a process is gone.
pub(crate) fn wait_until_gone(pid: i32) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let Ok(handle) = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) else {
        return;
    };
    let mut set = [PollFd::new(&handle, PollFlags::IN)];
    let timeout = Timespec {
        tv_sec: DEADLINE.as_secs() as i64,
        tv_nsec: 0,
    };
    assert_eq!(
        poll(&mut set, Some(&timeout)).unwrap(),
        1,
        "process {pid} should be gone"
    );
}

pub(crate) fn parent_of(pid: i32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields.split(' ').nth(1).unwrap().parse().unwrap()
}

/// The number in the line `name=number` of an output.
pub(crate) fn number(output: &str, name: &str) -> i32 {
    let line = output
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    line.unwrap_or_else(|| panic!("no {name} in {output}"))
        .trim()
        .parse()
        .unwrap()
}

/// Every file under a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()))
        } else {
            found.push(entry.path())
        }
    }
    found
}
