//! The programs that tests use and that are not built from this workspace.

use super::{Need, Session, Skip, node, python};
use crate::project::{find_program, succeed};

/// A system program.
struct Tool {
    /// Its file on the search path.
    program: &'static str,
    /// The Debian package that contains it.
    package: &'static str,
    /// The checks that need it.
    used_for: &'static str,
}

/// A test that needs another program adds it here.
const TOOLS: &[Tool] = &[
    Tool {
        program: "strace",
        package: "strace",
        used_for: "the proof that a sync stands between each write and its acknowledgement",
    },
    Tool {
        program: "tmux",
        package: "tmux",
        used_for: "the notifier that types into panes",
    },
    Tool {
        program: "pg_ctlcluster",
        package: "postgresql",
        used_for: "the tests of the store on PostgreSQL, which start a server of their own",
    },
    Tool {
        program: "pgbouncer",
        package: "pgbouncer",
        used_for: "the proof that the store works behind a pooler",
    },
    Tool {
        program: "chromium",
        package: "chromium",
        used_for: "the tests of the console, and the proof that no page of another origin reaches a server",
    },
];

/// Finds the tools; with [`Need::All`] installs the missing ones.
pub(super) fn run(session: &mut Session<'_>) -> Result<(), String> {
    let missing: Vec<&Tool> = TOOLS
        .iter()
        .filter(|tool| find_program(tool.program).is_none())
        .collect();
    println!(
        "{} of {} tools are here",
        TOOLS.len() - missing.len(),
        TOOLS.len()
    );
    system(session, &missing)?;
    python::prepare(session)?;
    node::prepare(session)
}

fn system(session: &mut Session<'_>, missing: &[&Tool]) -> Result<(), String> {
    if missing.is_empty() {
        return Ok(());
    }
    match session.need {
        Need::Present => {
            session.skips.extend(missing.iter().map(|tool| Skip {
                name: tool.program.to_owned(),
                reason: format!("not installed; needed for {}", tool.used_for),
            }));
            Ok(())
        }
        Need::All => install(session, missing),
    }
}

fn install(session: &Session<'_>, missing: &[&Tool]) -> Result<(), String> {
    let packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    let advice = format!("install by hand: {}", packages.join(" "));
    if find_program("apt-get").is_none() {
        return Err(format!("this system has no apt-get; {advice}"));
    }
    println!("installing {}", packages.join(" "));
    let apt = |arguments: &[&str]| {
        let mut command = session.project.program("apt-get");
        command
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive");
        succeed(&mut command).map_err(|error| format!("{error} (it needs root); {advice}"))
    };
    apt(&["update", "--quiet"])?;
    let mut arguments = vec!["install", "--quiet", "--yes", "--no-install-recommends"];
    arguments.extend(&packages);
    apt(&arguments)?;
    match missing
        .iter()
        .find(|tool| find_program(tool.program).is_none())
    {
        None => Ok(()),
        Some(tool) => Err(format!(
            "{} is still missing after installing {}",
            tool.program, tool.package
        )),
    }
}
