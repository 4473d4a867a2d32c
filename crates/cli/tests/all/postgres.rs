//! The store in a PostgreSQL database: commands, and servers that share it.

use serde_json::json;

use crate::answering::wait_for;
use crate::serving::{Serving, call, lab};
use crate::support::*;

#[test]
fn commands_use_the_database_of_a_url() {
    let Some(url) = testkit::postgres::database() else {
        return;
    };
    let lab = Lab::new();
    let flow = lab.workflow(&one_script("good", "echo one"));
    let missing = lab.call(&["runs", "list", "--store", &url]).with(2);
    missing.says("has no store");
    lab.call(&["run", &flow, "--store", &url]).with(0);
    let mut listed = lab.command(&["runs", "list", "--json"]);
    listed.env("RUNWRIGHT_STORE", &url);
    let listed = Ended::from(listed.output().unwrap()).with(0);
    assert_eq!(listed.json_lines().len(), 1);
    lab.call(&["runs", "show", "last", "--store", &url])
        .with(0)
        .prints("completed");
    lab.call(&["verify", "--store", &url]).with(0);
    lab.call(&["doctor", "--store", &url])
        .with_any(&[0, 1])
        .prints("postgres://");
    assert!(!lab.path().join(".runwright/store.db").exists());
}

#[test]
fn a_store_moves_to_a_database_and_back() {
    let Some(url) = testkit::postgres::database() else {
        return;
    };
    let lab = Lab::new();
    let flow = lab.workflow(&one_script("good", "echo one"));
    lab.call(&["run", &flow]).with(0);
    let before = lab.call(&["events", "last", "--json"]).with(0).stdout;
    let copied = lab.call(&[
        "store",
        "copy",
        "--from",
        ".runwright",
        "--to",
        &url,
        "--json",
    ]);
    assert_eq!(copied.with(0).json()["rows"]["tombstones"], 0);
    let again = lab.call(&["store", "copy", "--from", ".runwright", "--to", &url]);
    again.with(2).says("has data already");
    lab.call(&["verify", "--store", &url]).with(0);
    lab.call(&["run", &flow, "--store", &url]).with(0);
    let back = lab.call(&["store", "copy", "--from", &url, "--to", "back"]);
    back.with(0).prints("compared and checked");
    lab.call(&["verify", "--data", "back"]).with(0);
    let runs = lab
        .call(&["runs", "list", "--json", "--data", "back"])
        .with(0);
    let runs = runs.json_lines();
    assert_eq!(runs.len(), 2);
    let first = runs.last().unwrap()["runId"].as_str().unwrap();
    let after = lab.call(&["events", first, "--json", "--data", "back"]);
    assert_eq!(after.with(0).stdout, before);
}

#[test]
fn the_status_of_a_store_names_its_servers() {
    let lab = lab();
    let server = Serving::at(&lab, "one", &["--workflows", "flows", "--dev"]);
    let works = "until [ -e go ]; do sleep 0.05; done";
    let flow = lab.workflow(&one_script("works", works));
    lab.call(&["run", &flow, "--data", "one", "--detach"])
        .with(0);
    let status = || {
        let shown = lab.call(&["store", "status", "--data", "one", "--json"]);
        shown.with(0).json()
    };
    while status()["servers"][0]["leases"] != 1 {}
    lab.call(&["store", "status", "--data", "one"])
        .with(0)
        .prints("EXPIRES IN");
    let copy = ["store", "copy", "--from", "one", "--to", "other"];
    lab.call(&copy).with(2).says("stop the server first");
    std::fs::write(lab.path().join("go"), "").unwrap();
    lab.call(&["runs", "tail", "last", "--data", "one"]).with(0);
    server.stop();
    assert_eq!(status()["servers"], json!([]));
    assert!(status()["events"].as_u64() > Some(0));
    lab.call(&["store", "copy", "--from", "nowhere", "--to", "other"])
        .with(2)
        .says("no store in");
}

#[test]
fn a_store_is_one_database_or_one_folder() {
    let lab = Lab::new();
    let refused = |args: &[&str]| lab.call(&[&["runs", "list"], args].concat()).with(2);
    refused(&["--store", "mysql://h/d"]).says("postgres://USER@HOST/DATABASE");
    refused(&["--store", "a", "--data", "b"]).says("name two folders");
    refused(&["--store", "postgres://h/d", "--durability", "relaxed"])
        .says("leave --durability out");
    let secret = refused(&["--store", "postgres://me:hidden@h/d?sslmode=on"]).says("verify-full");
    assert!(!secret.stderr.contains("hidden"), "{}", secret.stderr);
    let flow = lab.workflow(&one_script("good", "echo one"));
    lab.call(&["run", &flow, "--store", "kept"]).with(0);
    assert!(lab.path().join("kept/store.db").exists());
}

#[test]
fn servers_of_one_database_act_on_each_others_runs() {
    let Some(url) = testkit::postgres::database() else {
        return;
    };
    let lab = lab();
    let more = ["--workflows", "flows", "--dev", "--store", &url];
    let (one, two) = (
        Serving::at(&lab, "one", &more),
        Serving::at(&lab, "two", &more),
    );
    let detached = call(&lab, &one, "", &["run", "waits", "--detach"]).with(0);
    let run = detached.stdout.trim().to_owned();
    call(&lab, &two, "", &["runs", "show", &run])
        .with(0)
        .prints("running");
    // The server that drives it is gone; the other continues it and takes the command.
    one.kill();
    call(
        &lab,
        &two,
        "",
        &["runs", "cancel", &run, "--reason", "enough"],
    )
    .with(0);
    call(&lab, &two, "", &["runs", "tail", &run])
        .with(1)
        .prints("run.cancelled");
    lab.call(&["verify", "--store", &url]).with(0);
    two.stop();
}

#[test]
fn a_shared_store_knows_its_servers_on_every_machine() {
    let Some(url) = testkit::postgres::database() else {
        return;
    };
    let lab = lab();
    let more = ["--workflows", "flows", "--dev", "--store", &url];
    let gate = node("gate", "core.approvalGate", json!({}));
    let flow = workflow(
        "ships",
        &[gate, script("ship", "echo out")],
        &[("gate", "ship")],
    );
    lab.write_flow(&flow);
    let one = Serving::at(&lab, "one", &more);
    let run = call(&lab, &one, "", &["run", "ships", "--detach"]).with(0);
    let run = run.stdout.trim();
    wait_for(
        &|args: &[&str]| call(&lab, &one, "", args),
        run,
        "node.suspended",
    );
    // The data folder here is another one, as on another machine.
    let here = |args: &[&str]| lab.call(&[args, &["--store", &url]].concat());
    here(&["resume"])
        .with(2)
        .says("a server drives the runs of this store");
    one.stop();
    here(&["runs", "resolve", run, "--action", "accept"])
        .with(0)
        .says("no process drives this run");
    here(&["resume"]).with(0);
}
