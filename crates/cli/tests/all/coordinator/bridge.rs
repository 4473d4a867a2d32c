//! The client of the published program, with this program instead of it.

use std::path::Path;
use std::process::Command;

use crate::support::{Ended, Lab};

#[test]
fn the_published_client_drives_it() {
    let Some(modules) = std::env::var_os("RUNWRIGHT_OMX_MODULES") else {
        let reason = "there is no Node.js with oh-my-codex; `cargo xtask ci` makes one";
        return testkit::skip("the_published_client_drives_it", reason);
    };
    let lab = Lab::new();
    let package = Path::new(&modules).join("node_modules/oh-my-codex");
    let ended = Command::new("node")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/all/coordinator/bridge.mjs"
        ))
        .arg(package.join("dist/runtime/bridge.js"))
        .arg(lab.path().join("state"))
        .env("OMX_RUNTIME_BINARY", env!("CARGO_BIN_EXE_runwright"))
        .current_dir(lab.path())
        .output()
        .unwrap();
    Ended::from(ended).with(0).prints("driven");
    assert_eq!(lab.view("events.json").as_array().unwrap().len(), 18);
    lab.call(&["verify", "--data", "state/.runwright"]).with(0);
}
