//! The examples of the guides in `docs/guide/`, run unchanged.
//!
//! Each page is one shell session in a folder with the examples. `sh` blocks are run in order. In
//! `console` blocks the lines after `$ ` are run and their output is compared; `…` matches any
//! text. A block with a file name after its language is written to that file. Any other block fails
//! the test, so that no example is left out.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::Lab;

/// The pages, with one test each.
macro_rules! pages {
    ($($page:ident),* $(,)?) => {
        const PAGES: &[&str] = &[$(stringify!($page)),*];
        $(
            #[test]
            fn $page() {
                run_page(stringify!($page));
            }
        )*
    };
}

pages!(
    access, deploy, install, openwop, player, provenance, runtime, telemetry, webhooks, workbench,
    workers, workflows,
);

#[test]
fn each_guide_has_a_test() {
    for entry in fs::read_dir(folder()).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let page = name.strip_suffix(".md").unwrap();
        assert!(PAGES.contains(&page), "{name} has no test here");
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide")
}

/// A command of a `console` block, with the output that the page shows.
struct Shown {
    command: String,
    output: String,
}

fn run_page(page: &str) {
    let is_missing = |program: &&str| Command::new(program).arg("--version").output().is_err();
    if let Some(program) = ["bash", "curl", "python3"].iter().find(|it| is_missing(it)) {
        testkit::skip(&format!("guides {page}"), &format!("there is no {program}"));
        return;
    }
    let database = if page == "deploy" {
        let Some(url) = testkit::postgres::database() else {
            return;
        };
        Some(url)
    } else {
        None
    };
    let lab = Lab::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    copy(&root.join("examples"), &lab.path().join("examples"));
    copy(&folder(), &lab.path().join("docs"));
    let bin = lab.path().join(".bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_runwright"), bin.join("runwright")).unwrap();

    let text = fs::read_to_string(folder().join(format!("{page}.md"))).unwrap();
    let mut text = text;
    for port in ["8080", "8081", "8082"] {
        text = text.replace(port, &free_port().to_string());
    }
    let (script, shown) = script(&text);
    let mut path = std::ffi::OsString::from(&bin);
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    let output = Command::new("bash")
        .arg("-c")
        .arg(script)
        .current_dir(lab.path())
        .env_clear()
        .env("PATH", path)
        .env("LANG", "C.UTF-8")
        .env("HOME", lab.path())
        .envs(database.map(|url| ("DATABASE", url)))
        .env("XDG_CONFIG_HOME", lab.path().join(".config"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "docs/guide/{page}.md: {}\n{printed}\n{errors}",
        output.status
    );
    for (n, shown) in shown.iter().enumerate() {
        let found = lab.read(&format!(".output-{n}"));
        assert!(
            fits(found.trim_end(), shown.output.trim_end()),
            "docs/guide/{page}.md: `{}` printed\n{found}",
            shown.command
        );
    }
}

/// The script of a page, and the expected output of its commands.
fn script(page: &str) -> (String, Vec<Shown>) {
    let mut script = "set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n".to_owned();
    let mut shown: Vec<Shown> = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let words: Vec<&str> = info.split(' ').collect();
        match words.as_slice() {
            ["sh"] => writeln!(script, "{}", block.join("\n")).unwrap(),
            ["console"] => console(&block, &mut script, &mut shown),
            [_, file] => writeln!(
                script,
                "mkdir -p \"$(dirname {file})\"\ncat > {file} <<'END_OF_FILE'\n{}\nEND_OF_FILE",
                block.join("\n")
            )
            .unwrap(),
            _ => panic!("a block ```{info} is not run; make it sh, console or a named file"),
        }
    }
    (script, shown)
}

fn console(block: &[&str], script: &mut String, shown: &mut Vec<Shown>) {
    for line in block {
        match (line.strip_prefix("$ "), shown.last_mut()) {
            (Some(command), _) => {
                let n = shown.len();
                writeln!(
                    script,
                    "{{ {command}\n}} > .output-{n} 2>&1 || echo \"exit code $?\" >> .output-{n}"
                )
                .unwrap();
                shown.push(Shown {
                    command: command.to_owned(),
                    output: String::new(),
                });
            }
            (None, Some(last)) => {
                last.output.push_str(line);
                last.output.push('\n');
            }
            (None, None) => panic!("output without a command: {line}"),
        }
    }
}

/// Whether a text matches the shown one, in which `…` matches any text.
fn fits(found: &str, shown: &str) -> bool {
    let parts: Vec<&str> = shown.split('…').collect();
    let [first, middle @ .., last] = parts.as_slice() else {
        return found == shown;
    };
    let Some(mut rest) = found.strip_prefix(first) else {
        return false;
    };
    for part in middle {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn an_ellipsis_matches_any_text() {
    assert!(fits("a c c", "a…c"));
    assert!(fits("a b c", "a…"));
    assert!(fits("a", "a"));
    assert!(!fits("a b", "a"));
    assert!(!fits("a b c", "a…b"));
    assert!(!fits("b", "a…"));
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if !source.is_dir() {
            fs::copy(&source, &target).unwrap();
        } else if entry.file_name() != "target" {
            copy(&source, &target);
        }
    }
}
