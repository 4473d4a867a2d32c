use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use provenance::Redaction;

use super::*;
use crate::folder_keep::InMemory;
use crate::scratch;

struct Lab {
    dir: tempfile::TempDir,
    keep: Arc<InMemory>,
    folder: Option<Folder>,
}

impl Lab {
    fn new(files: &[(&str, &str)]) -> Self {
        let lab = Self {
            dir: tempfile::tempdir().unwrap(),
            keep: Arc::default(),
            folder: None,
        };
        for (name, text) in files {
            lab.write(name, text);
        }
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn cleaner(&self) -> Cleaner {
        Cleaner::new(Redaction::default(), &[self.dir.path()])
    }

    fn watch(&mut self, include: &[&str]) {
        let include: Vec<String> = include.iter().map(|glob| (*glob).to_owned()).collect();
        let filter = Filter::new(&include, &[]).unwrap();
        let folder = Folder::open(self.dir.path(), filter, self.cleaner(), self.keep.clone());
        self.folder = Some(folder.unwrap());
    }

    fn step(&self) -> Vec<String> {
        told(&self.folder.as_ref().unwrap().step().unwrap().0)
    }

    fn net(&self) -> Vec<Change> {
        self.folder.as_ref().unwrap().net().unwrap().0
    }
}

fn told(changes: &[Change]) -> Vec<String> {
    let told = changes.iter();
    told.map(|change| format!("{} {}", change.operation.as_str(), change.path))
        .collect()
}

#[test]
fn every_path_can_be_written_down_and_meant() {
    for bytes in [
        &b"a/b c.txt"[..],
        b"100%",
        b"x\xff\xfey",
        b"%41",
        "\u{e9}".as_bytes(),
    ] {
        let path = PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec()));
        assert_eq!(meant(&shown(&path)), path, "{bytes:?}");
    }
}

#[test]
fn changes_are_tracked_since_the_last_scan_and_the_first() {
    let mut lab = Lab::new(&[("a", "one"), ("b", "two"), ("run.sh", "echo")]);
    lab.watch(&[]);
    lab.write("a", "six");
    assert_eq!(
        lab.step(),
        ["modified a"],
        "of the same length, at the same moment"
    );
    lab.write("new/c", "x");
    std::fs::rename(lab.path("b"), lab.path("d")).unwrap();
    assert_eq!(lab.step(), ["deleted b", "created d", "created new/c"]);
    lab.write("a", "one");
    std::fs::remove_file(lab.path("new/c")).unwrap();
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(lab.path("run.sh"), executable).unwrap();
    let net = lab.net();
    assert_eq!(told(&net), ["deleted b", "created d"]);
    assert_eq!(net[0].hash, Digest::compute(b"two"));
    assert_eq!(net[0].hash, net[1].hash, "a rename is told by it");
}

#[test]
fn ignored_files_are_watched_only_if_tracked_or_requested() {
    let files = [
        (".gitignore", "out/\n*.tmp\n"),
        ("out/x", "x"),
        ("kept.tmp", "x"),
        ("node_modules/m/index.js", "x"),
        ("build.log", "x"),
        ("wanted.log", "x"),
        (".git/HEAD", "x"),
        (".aiwg/provenance/snapshots/s.json", "x"),
    ];
    let mut lab = Lab::new(&files[..2]);
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        let ran = git
            .args(args)
            .current_dir(lab.dir.path())
            .env("HOME", lab.dir.path());
        ran.output().is_ok_and(|output| output.status.success())
    };
    let has_git = git(&["init", "-q"]);
    lab.write("kept.tmp", "x");
    if has_git {
        assert!(git(&["add", "-f", "kept.tmp"]));
    } else {
        testkit::skip("what_git_tracks_is_watched", "git is not installed");
    }
    lab.watch(&["wanted.log"]);
    for (name, _) in files {
        if name != ".git/HEAD" && name != ".gitignore" {
            lab.write(name, "other");
        }
    }
    let mut expected = vec!["created wanted.log"];
    if has_git {
        expected.insert(0, "modified kept.tmp");
    }
    assert_eq!(lab.step(), expected);
}

#[test]
fn links_are_recorded_by_target_and_not_followed() {
    let mut lab = Lab::new(&[("a", "one")]);
    symlink("a", lab.path("link")).unwrap();
    lab.watch(&[]);
    std::fs::remove_file(lab.path("link")).unwrap();
    symlink("/etc/passwd", lab.path("link")).unwrap();
    symlink("nowhere", lab.path("dangling")).unwrap();
    let net = lab.net();
    assert_eq!(told(&net), ["created dangling", "modified link"]);
    assert_eq!(net[1].hash, Digest::compute(b"/etc/passwd"));
    assert!(net[1].link);
}

#[test]
fn a_copy_goes_back_to_the_beginning_and_forward_again() {
    let mut lab = Lab::new(&[("a", "one"), ("sub/b", "two"), ("c", "three")]);
    lab.watch(&[]);
    lab.write("a", "changed");
    lab.write("deep/er/new", "new");
    std::fs::remove_file(lab.path("sub/b")).unwrap();
    let changes = lab.net();
    let scratch = tempfile::tempdir().unwrap();
    let to = scratch.path().join("copy");
    scratch::copy(lab.dir.path(), &to).unwrap();
    let read = |name: &str| std::fs::read_to_string(to.join(name)).ok();
    scratch::undo(&to, &changes, &lab.cleaner(), &*lab.keep).unwrap();
    assert_eq!(
        (read("a"), read("sub/b")),
        (Some("one".into()), Some("two".into()))
    );
    assert!(!to.join("deep").exists(), "with the folders it was made in");
    scratch::apply(&to, &changes, &lab.cleaner(), &*lab.keep).unwrap();
    assert_eq!((read("a"), read("sub/b")), (Some("changed".into()), None));
    assert_eq!(read("deep/er/new"), Some("new".into()));

    // A foreign recording cannot write outside the folder.
    symlink("/tmp", to.join("out")).unwrap();
    for path in [
        "../escaped",
        "/tmp/escaped",
        "out/escaped",
        "",
        "a/../../escaped",
    ] {
        let change = Change {
            path: path.to_owned(),
            ..changes[0].clone()
        };
        let refused = scratch::apply(&to, &[change], &lab.cleaner(), &*lab.keep);
        assert!(refused.is_err(), "{path:?}");
    }
    let gone = InMemory::default();
    let refused = scratch::undo(&to, &changes, &lab.cleaner(), &gone);
    assert!(matches!(
        refused,
        Err(scratch::ScratchError::ContentUnavailable { .. })
    ));
}

#[test]
fn folders_and_modes_are_recorded_with_the_contents() {
    use std::os::unix::fs::PermissionsExt;
    let mut lab = Lab::new(&[("script", "x"), ("both", "x")]);
    std::fs::create_dir(lab.path("gone")).unwrap();
    lab.watch(&[]);
    std::fs::remove_dir(lab.path("gone")).unwrap();
    std::fs::create_dir_all(lab.path("came/inner")).unwrap();
    lab.write("both", "other");
    for name in ["script", "both"] {
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(lab.path(name), mode).unwrap();
    }
    let (changes, metadata) = lab.folder.as_ref().unwrap().net().unwrap();
    assert_eq!(told(&changes), ["modified both"]);
    let folders = metadata.folders.iter();
    let folders = folders.map(|folder| format!("{} {}", folder.operation.as_str(), folder.path));
    assert_eq!(
        folders.collect::<Vec<_>>(),
        ["created came", "created came/inner", "deleted gone"]
    );
    let modes = metadata.modes.iter();
    let modes = modes.map(|change| (change.path.as_str(), change.before, change.mode));
    assert_eq!(modes.collect::<Vec<_>>(), [("script", 0o644, 0o755)]);
}
