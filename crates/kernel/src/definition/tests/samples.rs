//! Definitions kept outside the project, if available.

use std::path::PathBuf;

use super::Types;
use crate::definition::{Plan, UnknownTypes};

/// The folder with shared definitions, next to the workspace unless `RUNWRIGHT_SHARED` sets
/// another.
#[expect(
    clippy::disallowed_methods,
    reason = "a test that reads files asks where they are"
)]
fn shared() -> PathBuf {
    match std::env::var_os("RUNWRIGHT_SHARED") {
        Some(folder) => folder.into(),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    }
}

#[test]
#[expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test that reads files"
)]
fn shared_definitions_load() {
    let folder = shared().join("workflows/openwop");
    let Ok(entries) = std::fs::read_dir(folder) else {
        println!("SKIP: shared-definitions: no ../shared folder");
        return;
    };
    let mut loaded = 0;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Ok(text) = std::fs::read(entry.path()) else {
            continue;
        };
        match Plan::load(&text, &Types, UnknownTypes::Warn) {
            Ok(plan) => {
                let odd: Vec<_> = plan
                    .warnings
                    .iter()
                    .filter(|w| w.code.as_str() != "unknown_type")
                    // One of them waits for a person longer than its timeout.
                    .filter(|w| w.path != "/settings/timeout")
                    .filter(|w| {
                        plan.unmet
                            .as_ref()
                            .is_none_or(|unmet| unmet.place != w.path)
                    })
                    .map(ToString::to_string)
                    .collect();
                assert!(odd.is_empty(), "{name:?}: {odd:?}");
                loaded += 1;
            }
            Err(problems) => panic!("{name:?}: {problems}"),
        }
    }
    assert!(loaded > 0);
}
