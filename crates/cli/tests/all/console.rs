//! The console in a real browser, and its bundle against its source. The tests of the pages are in
//! `console/test`; a test here runs each of their files with the real program.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::serving::{Serving, lab};
use crate::support::*;

/// The files of the bundle.
const BUNDLE: [&str; 4] = ["index.html", "console.js", "console.css", "icon.svg"];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../console")
}

/// A copy of the console's folder, next to its packages. `None` without them.
fn checkout(lab: &Lab, name: &str) -> Option<PathBuf> {
    let Some(kit) = std::env::var_os("RUNWRIGHT_CONSOLE_MODULES") else {
        testkit::skip(name, "the npm packages of the console are not installed");
        return None;
    };
    let folder = lab.path().join("console");
    copy(&source(), &folder);
    symlink(
        Path::new(&kit).join("node_modules"),
        folder.join("node_modules"),
    )
    .unwrap();
    Some(folder)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (kind, target) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() && entry.file_name() != "node_modules" {
            copy(&entry.path(), &target);
        } else if kind.is_file() {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Runs a program; returns its output, which it fails with.
fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{command:?}: {text}");
    text
}

/// Runs a file of browser tests.
fn browse(name: &'static str, file: &str) {
    let Ok(chromium) = find("chromium") else {
        return testkit::skip(name, "chromium is not installed");
    };
    let lab = lab();
    let Some(folder) = checkout(&lab, name) else {
        return;
    };
    let scratch = lab.path().join("scratch");
    fs::create_dir_all(&scratch).unwrap();
    let mut tests = Command::new("node");
    tests
        .args(["--test", "--test-reporter=tap", file])
        .current_dir(folder.join("test"))
        .env("RUNWRIGHT", env!("CARGO_BIN_EXE_runwright"))
        .env("CONSOLE_LAB", scratch)
        .env("CHROMIUM", chromium)
        .env("HOME", lab.path());
    let text = succeeds(&mut tests);
    assert!(
        text.contains("# fail 0") && !text.contains("# pass 0"),
        "{text}"
    );
}

/// The lines of generated types without comments: descriptions may change on their own.
fn types(text: &str) -> Vec<&str> {
    let is_type = |line: &&str| !line.trim_start().starts_with(['*', '/']);
    text.lines().filter(is_type).collect()
}

fn find(program: &str) -> Result<PathBuf, ()> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&paths).map(|folder| folder.join(program));
    found.find(|path| path.is_file()).ok_or(())
}

#[test]
fn the_console_works_in_a_real_browser() {
    browse("the_console_works_in_a_real_browser", "console.test.mjs");
}

#[test]
fn every_action_of_the_console_works_in_a_real_browser() {
    browse(
        "every_action_of_the_console_works_in_a_real_browser",
        "actions.test.mjs",
    );
}

#[test]
fn hostile_runs_do_nothing_in_a_real_browser() {
    browse(
        "hostile_runs_do_nothing_in_a_real_browser",
        "hostile.test.mjs",
    );
}

#[test]
fn the_embedded_console_is_made_of_its_source() {
    let lab = lab();
    let Some(folder) = checkout(&lab, "the_embedded_console_is_made_of_its_source") else {
        return;
    };
    let serving = Serving::start(&lab, &["--dev"]);
    let advice = "run `npm ci && npm run build` in the folder `console`";
    succeeds(
        Command::new("node")
            .args(["build.mjs", "out"])
            .current_dir(&folder),
    );
    for name in BUNDLE {
        let (made, kept) = (
            folder.join("out").join(name),
            source().join("dist").join(name),
        );
        let is_same = fs::read(made).unwrap() == fs::read(kept).unwrap();
        assert!(
            is_same,
            "console/dist/{name} is not made of its source; {advice}"
        );
    }
    let sizes = BUNDLE.map(|name| {
        fs::metadata(source().join("dist").join(name))
            .unwrap()
            .len()
    });
    assert!(
        sizes.iter().sum::<u64>() < 250 << 10,
        "{sizes:?}: too large even compressed"
    );

    let document = format!("{}/v1/openapi.json", serving.url);
    let kept = fs::read_to_string(folder.join("src/openapi.d.ts")).unwrap();
    succeeds(
        Command::new("npm")
            .args(["run", "--silent", "types", "--", &document])
            .current_dir(&folder)
            .env("HOME", lab.path()),
    );
    let made = fs::read_to_string(folder.join("src/openapi.d.ts")).unwrap();
    assert!(
        types(&made) == types(&kept),
        "console/src/openapi.d.ts differs from the server's document; run `npm run types -- \
         http://127.0.0.1:8080/v1/openapi.json` in `console` with a server of this checkout"
    );
    succeeds(
        Command::new("npm")
            .args(["run", "--silent", "check"])
            .current_dir(&folder)
            .env("HOME", lab.path()),
    );
}

#[test]
fn console_prints_the_address_of_a_server() {
    let lab = lab();
    let serving = Serving::start(&lab, &["--dev"]);
    let printed = lab.call(&["console", "--server", &serving.url]).with(0);
    assert_eq!(printed.stdout.trim(), format!("{}/console", serving.url));
    let json = lab
        .call(&["console", "--json", "--server", &serving.url])
        .with(0)
        .json();
    assert_eq!(json["url"], format!("{}/console", serving.url));
    let url = serving.url.clone();
    serving.stop();
    let gone = lab.call(&["console", "--server", &url]).with(2);
    gone.says("runwright serve");
}
