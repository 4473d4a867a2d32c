//! Further functions of the published program: a rename, an identity, a lock.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::support::Lab;

#[test]
fn a_rename_never_replaces() {
    let lab = Lab::new();
    let (from, to) = (lab.write("from", "1"), lab.path().join("to"));
    let rename = |from: &Path, to: &Path| {
        lab.runtime(&[
            "fs-rename-no-replace",
            from.to_str().unwrap(),
            to.to_str().unwrap(),
        ])
    };
    assert_eq!(
        rename(&from, &to).with(0).stdout,
        "{\"outcome\":\"moved\"}\n"
    );
    lab.write("from", "2");
    assert_eq!(
        rename(&from, &to).with(0).stdout,
        "{\"code\":\"EEXIST\",\"outcome\":\"not-moved\"}\n"
    );
    assert_eq!(lab.read("to"), "1");
    rename(&lab.path().join("none"), &from)
        .with(1)
        .says("renameat2 failed with errno 2");
}

#[test]
fn a_process_differs_from_a_later_one_with_the_same_pid() {
    let lab = Lab::new();
    let own = std::process::id().to_string();
    let told = lab.runtime(&["process-identity", &own]).with(0).json();
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let birth = stat
        .rsplit_once(") ")
        .unwrap()
        .1
        .split(' ')
        .nth(19)
        .unwrap();
    assert_eq!(told["birth"], birth);
    assert_eq!(told["platform"], "linux");
    let gone = lab.runtime(&["process-identity", "4194305"]).with(0).stdout;
    assert_eq!(gone, "{\"outcome\":\"gone\"}\n");
}

/// A lock held by a separate process.
struct Mutex {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Mutex {
    fn start(lab: &Lab, dir: &Path, leaf: &str) -> Self {
        let folder = fs::metadata(dir).unwrap();
        let (device, inode) = (folder.dev().to_string(), folder.ino().to_string());
        let dir = dir.to_str().unwrap();
        let mut command = lab.command(&["runtime", "lease-mutex", dir, &device, &inode, leaf]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, request: &str) -> String {
        let stdin = self.child.stdin.as_mut().unwrap();
        writeln!(stdin, "{request}").unwrap();
        self.line()
    }
}

#[test]
fn a_lock_is_held_for_as_long_as_stdin_is_open() {
    let lab = Lab::new();
    let dir: PathBuf = lab.path().canonicalize().unwrap();
    let leaf = format!("{}.mutex", "0a".repeat(32));
    let mut first = Mutex::start(&lab, &dir, &leaf);
    assert_eq!(first.line(), r#"{"id":0,"ok":true,"ready":true}"#);
    let mut second = Mutex::start(&lab, &dir, &leaf);
    assert_eq!(
        first.ask(r#"{"id":1,"op":"assert"}"#),
        r#"{"id":1,"ok":true}"#
    );
    assert_eq!(
        first.ask(r#"{"id":"x","op":"foo"}"#),
        r#"{"error":"unsupported lease-mutex operation: foo","id":"x","ok":false}"#
    );
    let nonsense = first.ask("nonsense");
    assert!(
        nonsense.starts_with(r#"{"error":"invalid JSON request: "#),
        "{nonsense}"
    );
    assert_eq!(
        first.ask("{}"),
        r#"{"error":"request op must be assert or close","id":null,"ok":false}"#
    );
    drop(first.child.stdin.take());
    assert!(first.child.wait().unwrap().success());
    assert_eq!(second.line(), r#"{"id":0,"ok":true,"ready":true}"#);

    fs::remove_file(dir.join(&leaf)).unwrap();
    lab.write(&leaf, "");
    let changed = second.ask(r#"{"id":2,"op":"assert"}"#);
    assert!(
        changed.contains("lease-mutex visible mutex identity changed"),
        "{changed}"
    );
    fs::remove_file(dir.join(&leaf)).unwrap();
    let gone = second.ask(r#"{"id":3,"op":"assert"}"#);
    assert!(
        gone.contains("cannot verify visible mutex leaf: "),
        "{gone}"
    );
    // Closing succeeds regardless of the lock's state.
    let closed = second.ask(r#"{"id":4,"op":"close"}"#);
    assert!(closed.contains(r#""id":4,"ok":false"#), "{closed}");
    assert!(second.child.wait().unwrap().success());

    // Neither the directory nor the file may be reached through a link.
    let place = lab.path().join("place");
    fs::create_dir(&place).unwrap();
    std::os::unix::fs::symlink(&place, lab.path().join("link")).unwrap();
    let of = fs::metadata(&place).unwrap();
    let of = [of.dev().to_string(), of.ino().to_string()];
    let link = lab.path().join("link");
    let at = |path: &std::path::Path| {
        lab.runtime(&["lease-mutex", path.to_str().unwrap(), &of[0], &of[1], &leaf])
    };
    let linked = "cannot open directory without following symlinks: ";
    at(&link).with(1).says(linked);
    std::os::unix::fs::symlink("/etc/passwd", place.join(&leaf)).unwrap();
    let linked = "cannot open permanent mutex leaf without following symlinks: ";
    at(&place).with(1).says(linked);
    fs::remove_file(place.join(&leaf)).unwrap();
    lab.write("other", "");
    fs::hard_link(lab.path().join("other"), place.join(&leaf)).unwrap();
    at(&place).with(1).says("a regular file with link count 1");

    let wrong = lab
        .runtime(&["lease-mutex", dir.to_str().unwrap(), "1", "2", &leaf])
        .with(1);
    assert!(
        wrong
            .stdout
            .starts_with(r#"{"error":"lease-mutex directory identity mismatch"#)
    );
    for (device, inode, name) in [("x", "2", "expected-dev"), ("1", "-2", "expected-ino")] {
        let odd = lab
            .runtime(&["lease-mutex", dir.to_str().unwrap(), device, inode, &leaf])
            .with(1);
        let error = format!("{name} must be a non-negative decimal integer");
        assert_eq!(
            odd.stdout,
            format!("{{\"error\":\"{error}\",\"id\":0,\"ok\":false}}\n")
        );
        odd.says(&format!("omx-runtime: {error}\n"));
    }
    lab.runtime(&["lease-mutex", "/", "1", "2", "x.mutex"])
        .with(1)
        .says("safe-leaf must match");
}
