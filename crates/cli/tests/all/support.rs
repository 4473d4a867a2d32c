//! A separate folder for each test, the program in it, and bounded waits.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::{Value, json};

/// No step in these tests takes longer unless it hangs.
const DEADLINE_S: i64 = 60;

/// A project folder that is removed at the end.
pub(crate) struct Lab {
    folder: tempfile::TempDir,
    /// The folder of its user's key.
    config: tempfile::TempDir,
}

/// A gate at which scripts wait with `read -r _ < NAME`, one script at a time.
pub(crate) struct Gate(File);

impl Gate {
    /// Lets the waiting or next script continue.
    pub(crate) fn open(&mut self) {
        self.0.write_all(b"open\n").unwrap();
    }
}

/// The end of a call of the program.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the program writes UTF-8");
        Self {
            code: output.status.code().expect("the program was not killed"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl Ended {
    /// Checks the exit code; prints everything if it differs.
    #[track_caller]
    pub(crate) fn with(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// Checks that the exit code is one of several.
    #[track_caller]
    pub(crate) fn with_any(self, codes: &[i32]) -> Self {
        assert!(codes.contains(&self.code), "{self:#?}");
        self
    }

    /// Checks that stderr contains a text.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(
            self.stderr.contains(text),
            "{text:?} is not said in {self:#?}"
        );
        self
    }

    /// Checks that stdout has something.
    #[track_caller]
    pub(crate) fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "{text:?} is not in {self:#?}");
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:#?}"))
    }

    /// Standard output as lines of JSON.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        let read =
            |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.stdout.lines().map(read).collect()
    }
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            config: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A text in the environment of this lab's processes only.
    pub(crate) fn mark(&self) -> String {
        let name = self.path().file_name().unwrap().to_str().unwrap();
        format!("lab-{}", name.trim_start_matches('.'))
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }

    /// Writes a workflow as `NAME.json`.
    pub(crate) fn workflow(&self, workflow: &Value) -> String {
        let name = format!("{}.json", workflow["id"].as_str().unwrap());
        self.write(&name, workflow.to_string());
        name
    }

    /// Writes a workflow into the folder for servers.
    pub(crate) fn write_flow(&self, workflow: &Value) {
        fs::create_dir_all(self.path().join("flows")).unwrap();
        let name = format!("flows/{}.json", workflow["id"].as_str().unwrap());
        self.write(&name, workflow.to_string());
    }

    pub(crate) fn gate(&self, name: &str) -> Gate {
        let path = self.path().join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
        // Opened for both directions, so that neither this nor a script blocks in opening it.
        Gate(File::options().read(true).write(true).open(path).unwrap())
    }

    /// The program, not started yet, in its own environment.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_runwright"));
        command
            .args(args)
            .current_dir(self.path())
            .env_clear()
            .stdin(Stdio::null());
        command
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("LANG", "C.UTF-8")
            .env("XDG_CONFIG_HOME", self.config.path());
        command
    }

    /// Calls the program and waits for its end.
    pub(crate) fn call(&self, args: &[&str]) -> Ended {
        self.command(args).output().unwrap().into()
    }

    /// Calls the program with an input.
    pub(crate) fn call_with(&self, args: &[&str], stdin: &[u8]) -> Ended {
        let mut command = self.command(args);
        let command = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The program may end before it has read everything.
        let _ = child.stdin.take().unwrap().write_all(stdin);
        child.wait_with_output().unwrap().into()
    }

    /// Starts the program and follows its printed events.
    pub(crate) fn engine(&self, args: &[&str]) -> Engine {
        let mut command = self.command(args);
        let mut child = command
            .arg("--json")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Engine { child, lines }
    }

    /// The events of a run, read from the store alone.
    pub(crate) fn events(&self, run: &str) -> Vec<Value> {
        self.call(&["events", run, "--json"]).with(0).json_lines()
    }

    /// The id of the newest run.
    pub(crate) fn last_run(&self) -> String {
        let listed = self
            .call(&["runs", "list", "--limit", "1", "--json"])
            .with(0);
        listed.json()["runId"].as_str().unwrap().to_owned()
    }

    /// Replaces one text with another everywhere in the store of the lab.
    pub(crate) fn tamper(&self, original: &str, counterfeit: &str) {
        let store = self.path().join(".runwright/store.db");
        let connection = rusqlite::Connection::open(store).unwrap();
        let mut changed = 0;
        for (table, column) in tables_with_content(&connection) {
            let sql = format!(
                "UPDATE {table} SET {column} = CAST(replace(CAST({column} AS TEXT), ?1, ?2) AS BLOB)
                 WHERE instr(CAST({column} AS TEXT), ?1)"
            );
            changed += connection
                .execute(&sql, [original, counterfeit])
                .unwrap_or(0);
        }
        assert!(changed > 0, "the test knows where events lie");
    }

    /// The ids of living processes with this lab's mark: those of attempts.
    pub(crate) fn attempts_alive(&self) -> Vec<i32> {
        let variable = format!("LAB={}", self.mark());
        alive("environ", |bytes| {
            bytes
                .split(|&byte| byte == 0)
                .any(|part| part == variable.as_bytes())
        })
    }

    /// The ids of the living supervisors of this lab.
    pub(crate) fn supervisors_alive(&self) -> Vec<i32> {
        let folder = self.path().to_str().unwrap().as_bytes();
        let is_ours = |bytes: &[u8]| {
            let mut args = bytes.split(|&byte| byte == 0).skip(1);
            args.next() == Some(b"__exec")
                && args
                    .next()
                    .is_some_and(|dir| dir.windows(folder.len()).any(|part| part == folder))
        };
        alive("cmdline", is_ours)
    }

    /// Waits until all processes of this lab have ended.
    pub(crate) fn wait_until_quiet(&self) {
        loop {
            let running = [self.supervisors_alive(), self.attempts_alive()].concat();
            if running.is_empty() {
                return;
            }
            running.into_iter().for_each(wait_until_gone);
        }
    }
}

/// Every column that holds bytes.
fn tables_with_content(connection: &rusqlite::Connection) -> Vec<(String, String)> {
    let sql = "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c
               WHERE m.type = 'table' AND upper(c.type) = 'BLOB'";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    rows.map(Result::unwrap).collect()
}

fn alive(file: &str, is_ours: impl Fn(&[u8]) -> bool) -> Vec<i32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        // A zombie process has neither file's content.
        fs::read(format!("/proc/{pid}/{file}")).is_ok_and(|bytes| is_ours(&bytes))
    })
    .collect()
}

/// Waits for the end of a process without polling.
pub(crate) fn wait_until_gone(pid: i32) {
    let Ok(handle) = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) else {
        return;
    };
    let mut set = [PollFd::new(&handle, PollFlags::IN)];
    let timeout = Timespec {
        tv_sec: DEADLINE_S,
        tv_nsec: 0,
    };
    let ready = poll(&mut set, Some(&timeout)).unwrap();
    assert_eq!(ready, 1, "process {pid} should be gone");
}

/// The program while it drives runs, killed at the end of the test if it still lives.
pub(crate) struct Engine {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Engine {
    pub(crate) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// The next printed line; `None` when it has ended.
    pub(crate) fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line).unwrap();
        (read > 0).then(|| serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}")))
    }

    /// Reads until an expected event.
    pub(crate) fn wait_for(&mut self, what: impl Fn(&Value) -> bool) -> Value {
        while let Some(event) = self.next() {
            if what(&event) {
                return event;
            }
        }
        panic!("the engine ended before that came");
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Any other signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = Pid::from_raw(self.pid()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for its end; returns the exit code and the last printed line.
    pub(crate) fn end(&mut self) -> (i32, Option<Value>) {
        let mut last = None;
        while let Some(line) = self.next() {
            last = Some(line);
        }
        (
            self.child
                .wait()
                .unwrap()
                .code()
                .expect("it was not killed"),
            last,
        )
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether an event is of a type.
pub(crate) fn is(kind: &'static str) -> impl Fn(&Value) -> bool {
    move |event| event["type"] == kind
}

/// Whether an event is of a type and about a node.
pub(crate) fn is_of(kind: &'static str, node: &'static str) -> impl Fn(&Value) -> bool {
    move |event| event["type"] == kind && event["nodeId"] == node
}

/// A workflow of nodes and `from -> to` edges.
pub(crate) fn workflow(id: &str, nodes: &[Value], edges: &[(&str, &str)]) -> Value {
    let edges = edges.iter().map(|(from, to)| {
        json!({ "id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to })
    });
    json!({
        "id": id, "name": id, "version": "1.0.0",
        "nodes": nodes, "edges": edges.collect::<Vec<_>>(),
        "triggers": [], "variables": [], "settings": {}, "metadata": {},
    })
}

/// A node without inputs.
pub(crate) fn node(id: &str, type_id: &str, config: Value) -> Value {
    json!({
        "id": id, "typeId": type_id, "name": id, "position": { "x": 0, "y": 0 },
        "inputs": {}, "config": config,
    })
}

/// A node that runs a shell script.
pub(crate) fn script(id: &str, script: &str) -> Value {
    node(
        id,
        "runwright.process",
        json!({ "argv": ["sh", "-euc", script] }),
    )
}

/// A workflow with one node, which runs a script.
pub(crate) fn one_script(id: &str, text: &str) -> Value {
    workflow(id, &[script("step", text)], &[])
}

/// Sufficient to choose moments, and the same on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
