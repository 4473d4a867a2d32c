//! The permissions of other users on the files of a store: none, with any umask.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::play::{chain, checkpoint, node};
use crate::support::{Ended, Lab, one_script};

/// The program under another umask.
fn under(lab: &Lab, umask: &str, args: &[&str]) -> Command {
    let command = lab.command(args);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(lab.path())
        .env_clear()
        .envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .stdin(Stdio::null());
    shell
}

/// Every file and folder below one, itself first.
fn all_below(top: &Path) -> Vec<PathBuf> {
    let mut found = vec![top.to_owned()];
    let mut next = 0;
    while let Some(path) = found.get(next).cloned() {
        next += 1;
        if !path.is_symlink() && path.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            found.extend(entries.map(|entry| entry.unwrap().path()));
        }
    }
    found
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Paths in and below these that other users can access.
fn loose(lab: &Lab, names: &[&str]) -> Vec<String> {
    let tops = names.iter().map(|name| lab.path().join(name));
    let all: Vec<PathBuf> = tops.flat_map(|top| all_below(&top)).collect();
    assert!(all.len() > names.len(), "something is there: {all:?}");
    // A file that vanished since has no permissions.
    let there = all
        .iter()
        .filter(|path| path.exists() && !path.is_symlink());
    let loose = there.filter(|path| mode(path) & 0o077 != 0);
    loose
        .map(|path| format!("{:o} {}", mode(path), path.display()))
        .collect()
}

#[test]
fn a_store_is_for_its_owner_under_every_umask() {
    for umask in ["000", "022"] {
        let lab = Lab::new();
        let script = one_script("makes", "echo said; echo made > made; umask > umask");
        lab.workflow(&script);
        lab.write_flow(&script);
        let call = |args: &[&str]| Ended::from(under(&lab, umask, args).output().unwrap());
        call(&["run", "makes.json"]).with(0);
        // A program of the user's works under the user's own umask.
        assert_eq!(
            lab.read("umask").trim().trim_start_matches('0'),
            umask.trim_start_matches('0')
        );
        let made = 0o666 & !u32::from_str_radix(umask, 8).unwrap();
        assert_eq!(mode(&lab.path().join("made")), made);
        let run = lab.last_run();
        call(&["keys", "create", "--tenant", "acme"]).with(0);
        let mut put = under(
            &lab,
            umask,
            &["secrets", "put", "--tenant", "local", "token"],
        );
        let mut put = put.stdin(Stdio::piped()).spawn().unwrap();
        put.stdin.take().unwrap().write_all(b"s3cret").unwrap();
        assert!(put.wait().unwrap().success());
        call(&["snapshot", "capture", "--", "sh", "-c", "echo x > out"]).with(0);
        call(&["runs", "bundle", &run, "-o", "bundle.json"]).with(0);
        let lease = r#"{"command":"AcquireAuthority","owner":"w","lease_id":"l",
            "leased_until":"2099-01-01T00:00:00Z"}"#;
        call(&["runtime", "exec", lease, "--state-dir=state"]).with(0);
        let args = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--workflows",
            "flows",
            "--dev",
        ];
        let mut server = under(&lab, umask, &args);
        let mut server = server
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(server.stdout.take().unwrap())
            .read_line(&mut url)
            .unwrap();
        call(&["run", "makes", "--server", url.trim()]).with(0);
        // While everything is open, and after.
        let names = [".runwright", ".aiwg", "state", "bundle.json"];
        assert_eq!(loose(&lab, &names), Vec::<String>::new(), "umask {umask}");
        server.kill().unwrap();
        server.wait().unwrap();
        call(&["doctor", "--clean"]).with(0);
        assert_eq!(loose(&lab, &names), Vec::<String>::new(), "umask {umask}");
    }
}

#[test]
fn a_loose_store_is_tightened_and_named() {
    let lab = Lab::new();
    lab.workflow(&one_script("makes", "echo said"));
    lab.call(&["run", "makes.json"]).with(0);
    let data = lab.path().join(".runwright");
    for path in all_below(&data) {
        let open = if path.is_dir() { 0o777 } else { 0o666 };
        fs::set_permissions(&path, Permissions::from_mode(open)).unwrap();
    }
    let told = lab.call(&["doctor"]).with(0).prints("other users can use");
    let told = told.prints("chmod -R go=");
    assert!(told.stdout.contains("more"), "{told:?}");
    // Opening the store is sufficient for the folder and its files.
    lab.call(&["run", "makes.json"]).with(0);
    assert_eq!(mode(&data), 0o700);
    for name in ["store.db", ".gitignore", "attempts"] {
        assert_eq!(mode(&data.join(name)) & 0o077, 0, "{name}");
    }
    let chmod = Command::new("chmod")
        .args(["-R", "go="])
        .arg(&data)
        .status();
    assert!(chmod.unwrap().success());
    lab.call(&["doctor"])
        .with(0)
        .prints("only you can use the store");
}

#[test]
fn other_files_in_the_store_folder_are_left_alone() {
    let lab = Lab::new();
    lab.workflow(&one_script("makes", "echo said"));
    let file = lab.write("own.txt", "mine");
    for path in [file.as_path(), lab.path()] {
        let open = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(path, Permissions::from_mode(open)).unwrap();
    }
    lab.call(&["run", "makes.json", "--data", "."]).with(0);
    assert_eq!((mode(&file), mode(lab.path())), (0o644, 0o755));
    assert_eq!(mode(&lab.path().join("store.db")), 0o600);
}

#[test]
fn sessions_are_for_their_owner_under_every_umask() {
    for umask in ["000", "022"] {
        let nodes = [node("a", "echo said", ""), checkpoint("cp", false)];
        let lab = Lab::with_template(&chain(&nodes));
        let call = |args: &[&str]| Ended::from(under(&lab, umask, args).output().unwrap());
        call(&["play", "sample", "--yes"]).with(0);
        let sessions = [".workflow/sessions"];
        assert_eq!(
            loose(&lab, &sessions),
            Vec::<String>::new(),
            "umask {umask}"
        );
        call(&["play", "--archive"]).with(0);
        assert_eq!(
            loose(&lab, &sessions),
            Vec::<String>::new(),
            "umask {umask}"
        );
    }
}
