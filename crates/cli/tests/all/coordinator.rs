//! `runwright runtime`, and the program under its published name.

mod agree;
mod bridge;
pub(crate) mod clients;
mod contracts;
mod files;
mod kills;
mod left;
mod live;
mod served;
mod status;
mod tmux;
mod tools;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};

use crate::support::{Ended, Lab};

/// The files that clients read.
const VIEWS: [&str; 9] = [
    "events.json",
    "dispatch.json",
    "mailbox.json",
    "dispatch-seen.json",
    "snapshot.json",
    "authority.json",
    "backlog.json",
    "readiness.json",
    "replay.json",
];

impl Lab {
    fn runtime(&self, args: &[&str]) -> Ended {
        self.call(&[&["runtime"], args].concat())
    }

    fn exec(&self, command: &Value) -> Ended {
        self.runtime(&["exec", &command.to_string(), "--state-dir=state"])
    }

    fn snapshot(&self) -> Value {
        self.runtime(&["snapshot", "--json", "--state-dir=state"])
            .with(0)
            .json()
    }

    fn view(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(&format!("state/{name}"))).expect(name)
    }
}

fn queue(id: &str) -> Value {
    json!({ "command": "QueueDispatch", "request_id": id, "target": "worker" })
}

fn notify(id: &str) -> Value {
    json!({ "command": "MarkNotified", "request_id": id, "channel": "pane" })
}

fn deliver(id: &str) -> Value {
    json!({ "command": "MarkDelivered", "request_id": id })
}

fn acquire(owner: &str, until: &str) -> Value {
    json!({ "command": "AcquireAuthority", "owner": owner, "lease_id": "l", "leased_until": until })
}

#[test]
fn refusals_are_in_the_published_words() {
    let lab = Lab::new();
    lab.exec(&queue("r")).with(0);
    lab.exec(&acquire("me", "later")).with(0);
    let cases = [
        (
            queue("r"),
            "dispatch error: duplicate dispatch request id: r",
        ),
        (
            queue(""),
            "dispatch error: invalid dispatch request id: \"\"",
        ),
        (notify("x"), "dispatch error: dispatch record not found: x"),
        (
            deliver("r"),
            "dispatch error: invalid transition for r: pending -> delivered",
        ),
        (
            acquire("you", "x"),
            "authority error: lease already held by me",
        ),
        (
            json!({ "command": "RenewAuthority", "owner": "you", "lease_id": "l", "leased_until": "x" }),
            "authority error: owner mismatch: lease held by me",
        ),
        (
            json!({ "command": "MarkMailboxNotified", "message_id": "m" }),
            "mailbox error: mailbox record not found: m",
        ),
        (
            json!({ "command": "MarkDelivered" }),
            "invalid JSON: missing field `request_id`",
        ),
        (
            json!({ "command": "Nope" }),
            "invalid JSON: unknown variant `Nope`",
        ),
    ];
    for (command, text) in cases {
        let ended = lab
            .exec(&command)
            .with(1)
            .says(&format!("omx-runtime: {text}"));
        assert_eq!(ended.stdout, "");
    }
    let usage: [(&[&str], &str); 9] = [
        (&["exec"], "exec requires a JSON command argument"),
        (&["init"], "init requires a state directory path"),
        (&["nope"], "unknown subcommand `nope`"),
        (
            &["snapshot", "--state-dir=nowhere"],
            "No such file or directory",
        ),
        (&["snapshot", "--state-dir", "x"], "--state-dir=DIR"),
        (
            &["process-identity", "abc"],
            "must be a positive integer, got: abc",
        ),
        (&["process-identity", "0"], "pid must be > 0"),
        (
            &["fs-rename-no-replace", "a", "/b"],
            "from path must be absolute",
        ),
        (&["lease-mutex", "a"], "lease-mutex requires exactly"),
    ];
    for (args, text) in usage {
        lab.runtime(args).with(1).says(text);
    }
}

#[test]
fn a_long_command_comes_by_file_or_by_stdin() {
    let lab = Lab::new();
    let command = json!({
        "command": "CreateMailboxMessage", "message_id": "m", "from_worker": "x",
        "to_worker": "y", "body": "long ".repeat(100_000),
    });
    lab.write("command.json", command.to_string());
    lab.runtime(&["exec", "@command.json", "--state-dir=state"])
        .with(0);
    let again = command.to_string().replace("\"m\"", "\"n\"");
    lab.call_with(
        &["runtime", "exec", "-", "--state-dir=state"],
        again.as_bytes(),
    )
    .with(0);
    assert_eq!(
        lab.view("mailbox.json")["records"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

/// A truncated command would be a different one.
#[test]
fn a_command_that_is_too_long_is_refused_and_not_cut() {
    let lab = Lab::new();
    let mut command = queue("r").to_string();
    // Text after a command of this length would not be read.
    command.push_str(&" ".repeat((16 << 20) - command.len()));
    lab.write("fits.json", &command);
    lab.write("long.json", command + "}");
    let exec = |file: &str| lab.runtime(&["exec", file, "--state-dir=state"]);
    exec("@long.json")
        .with(1)
        .says("command error: the command is longer than 16777216 bytes");
    exec("@fits.json").with(0);
    lab.write("odd.json", b"{\"command\":\"\xff\"}");
    exec("@odd.json").with(1).says("the command is not UTF-8");
}

#[test]
fn called_by_the_published_name_it_is_the_published_program() {
    let lab = Lab::new();
    let named = lab.path().join("omx-runtime");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_runwright"), &named).unwrap();
    let mut by_name = std::process::Command::new(&named);
    let by_name: Ended = by_name.args(["schema", "--json"]).output().unwrap().into();
    let schema = by_name.with(0).json();
    assert_eq!(schema["schema_version"], 1);
    let mut by_variable = lab.command(&["snapshot"]);
    by_variable.env("OMX_RUNTIME_BINARY", env!("CARGO_BIN_EXE_runwright"));
    let by_variable: Ended = by_variable.output().unwrap().into();
    by_variable.with(0).prints("schema=1 authority=owner=none");
}

/// A path of nearly the same name is never touched.
#[test]
fn non_text_arguments_are_rejected_but_not_rename_paths() {
    let lab = Lab::new();
    let odd = |text: &[u8]| OsStr::from_bytes(text).to_owned();
    let call = |args: &[&OsStr]| {
        let mut command = lab.command(&["runtime"]);
        let out = command.args(args).output().unwrap();
        let stderr = String::from_utf8(out.stderr).unwrap();
        (out.status.code().unwrap(), stderr)
    };
    let command = queue("r").to_string();
    let dir = odd(b"--state-dir=st\xffte");
    let (code, why) = call(&[OsStr::new("exec"), OsStr::new(&command), &dir]);
    assert_eq!(code, 1);
    assert!(
        why.contains("argument 3 is not UTF-8; name a path"),
        "{why}"
    );
    let bytes = odd(b"{\"command\":\"RequestReplay\",\"cursor\":\"\xff\"}");
    let (code, why) = call(&[OsStr::new("exec"), &bytes, OsStr::new("--state-dir=state")]);
    assert_eq!(code, 1);
    assert!(why.contains("argument 2 is not UTF-8"), "{why}");
    assert_eq!(std::fs::read_dir(lab.path()).unwrap().count(), 0);

    lab.write("from", "");
    let (from, to) = (lab.path().join("from"), lab.path().join(odd(b"t\xff")));
    let rename = OsStr::new("fs-rename-no-replace");
    assert_eq!(call(&[rename, from.as_os_str(), to.as_os_str()]).0, 0);
    assert!(to.exists());
}
