//! Command lines, valid and invalid.

use crate::support::*;

#[test]
fn help_lists_commands_and_exit_codes() {
    let lab = Lab::new();
    let help = lab.call(&["--help"]).with(0);
    for text in [
        "run ",
        "resume",
        "verify",
        "Exit codes",
        "RUNWRIGHT_DATA",
        "NO_COLOR",
    ] {
        assert!(
            help.stdout.contains(text),
            "{text} is missing in {}",
            help.stdout
        );
    }
    assert!(
        !help.stdout.contains("__exec"),
        "the supervisor is no command for people"
    );
    let commands = [
        "demo",
        "run",
        "resume",
        "events",
        "verify",
        "doctor",
        "completions",
        "runs list",
        "runs show",
        "runs events",
        "runs tail",
        "runs cancel",
        "runs pause",
        "runs unpause",
        "runs signal",
        "runs interrupts",
        "runs resolve",
        "runs fork",
        "runs replay",
        "runs diff",
        "runs ancestry",
        "runs note",
        "runs bundle",
        "runs artifact",
        "runs purge",
        "workflow validate",
        "workflow graph",
        "workflow put",
        "workflow list",
        "workflow nodes",
        "keys create",
        "keys list",
        "keys revoke",
        "keys rotate",
        "webhooks create",
        "webhooks list",
        "webhooks deliveries",
        "webhooks delete",
        "audit list",
        "audit export",
        "audit verify",
        "audit key",
    ];
    for command in commands {
        let mut args: Vec<&str> = command.split(' ').collect();
        args.push("--help");
        lab.call(&args).with(0).prints("Usage: runwright");
    }
    assert!(
        !lab.path().join(".runwright").exists(),
        "help writes nothing"
    );
}

#[test]
fn nothing_typed_is_wrong_usage() {
    let lab = Lab::new();
    lab.call(&[]).with(2).says("Usage: runwright");
    lab.call(&["runs"]).with(2).says("Usage: runwright");
    lab.call(&["fly"]).with(2).says("unrecognized subcommand");
    lab.call(&["verfy"]).with(2).says("verify");
    lab.call(&["run"]).with(2).says("WORKFLOW");
    lab.call(&["run", "x.json", "--input", "novalue"])
        .with(2)
        .says("write NAME=VALUE");
    lab.call(&["run", "x.json", "--max-parallel", "0"]).with(2);
    lab.call(&["run", "x.json", "--watch", "--quiet"])
        .with(2)
        .says("cannot be used with");
}

#[test]
fn the_supervisor_command_says_that_it_is_not_for_people() {
    Lab::new()
        .call(&["__exec"])
        .with(2)
        .says("started by the engine only");
}

#[test]
fn a_store_that_is_not_there_is_named_and_not_made() {
    let lab = Lab::new();
    for args in [
        &["runs", "list"][..],
        &["runs", "show", "last"],
        &["events", "last"],
        &["resume"],
        &["verify"],
        &["runs", "cancel", "last"],
        &["workflow", "list"],
    ] {
        lab.call(args)
            .with(2)
            .says("no store in")
            .says("runwright run FILE");
    }
    assert!(!lab.path().join(".runwright").exists());
}

#[test]
fn a_file_that_is_not_a_store_is_left_alone() {
    let lab = Lab::new();
    std::fs::create_dir(lab.path().join(".runwright")).unwrap();
    lab.write(".runwright/store.db", "these are not the bytes of a store");
    lab.call(&["runs", "list"]).with(2).says("store.db");
    let file = lab.workflow(&one_script("w", "true"));
    lab.call(&["run", &file]).with(2).says("store.db");
    assert_eq!(
        lab.read(".runwright/store.db"),
        "these are not the bytes of a store"
    );
    lab.call(&["doctor"]).with(1).prints("bad");
}

#[test]
fn a_run_id_is_never_a_path() {
    let lab = Lab::new();
    let file = lab.workflow(&one_script("w", "true"));
    lab.call(&["run", &file]).with(0);
    for id in ["../../../etc/passwd", "a/b", "", "run-é", "a b", "*"] {
        let ended = lab.call(&["runs", "show", id]).with(2);
        assert!(!ended.stderr.contains("panicked"), "{ended:?}");
    }
    lab.call(&["runs", "show", "zzzzzzzz"])
        .with(2)
        .says("no run `zzzzzzzz`");
    lab.call(&["runs", "show", "ab"])
        .with(2)
        .says("at least 4 characters");
    lab.call(&["runs", "purge", "..", "--yes"]).with(2);
}

#[test]
fn runs_are_found_by_unique_parts_of_their_ids() {
    let lab = Lab::new();
    let file = lab.workflow(&one_script("w", "true"));
    lab.call(&["run", &file]).with(0);
    let run = lab.last_run();
    let tail = &run[run.len() - 8..];
    for part in [
        run.as_str(),
        tail,
        &run[..run.len() - 2],
        &run[4..20],
        "last",
    ] {
        assert_eq!(
            lab.call(&["runs", "show", part, "--json"]).with(0).json()["runId"],
            run.as_str()
        );
    }
    // The beginning of the displayed id denotes the run; its middle is only suggested.
    lab.call(&["runs", "show", &tail[..5]]).with(0);
    let middle = &tail[1..7];
    let is_an_end = tail.starts_with(middle) || tail.ends_with(middle);
    if !is_an_end {
        let no_run = format!("no run `{middle}`");
        let ended = lab.call(&["runs", "show", middle]).with(2).says(&no_run);
        ended.says(&format!("did you mean {tail}?"));
        for args in [&["cancel", middle][..], &["purge", middle, "--yes"]] {
            let ended = lab.call(&[&["runs"], args].concat()).with(2).says(&no_run);
            assert!(!ended.stderr.contains(tail), "{ended:#?}");
        }
    }
    // A similar id is another one.
    let other = if tail.ends_with('0') { "1" } else { "0" };
    let slip = format!("{}{other}", &tail[..7]);
    let ended = lab.call(&["runs", "show", &slip]).with(2);
    assert!(!ended.stderr.contains("did you mean"), "{ended:#?}");
    lab.call(&["run", &file]).with(0);
    lab.call(&["runs", "show", "run-01"])
        .with(2)
        .says("fits several runs")
        .says(&run);
}

#[test]
fn colours_are_for_terminals_or_on_demand() {
    let lab = Lab::new();
    let file = lab.workflow(&one_script("w", "true"));
    let escape = '\u{1b}';
    for args in [
        &["run", &file][..],
        &["runs", "list"],
        &["events", "last"],
        &["doctor"],
    ] {
        let ended = lab.call(args).with(0);
        assert!(
            !ended.stdout.contains(escape) && !ended.stderr.contains(escape),
            "{ended:?}"
        );
    }
    let forced = lab.call(&["runs", "list", "--color", "always"]).with(0);
    assert!(forced.stdout.contains(escape), "{forced:?}");
    let mut command = lab.command(&["runs", "list"]);
    command.env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1");
    let ended = Ended::from(command.output().unwrap());
    assert!(
        !ended.stdout.contains(escape),
        "NO_COLOR is stronger: {ended:?}"
    );
}

#[test]
fn a_closed_output_pipe_is_not_an_error() {
    let lab = Lab::new();
    let file = lab.workflow(&one_script("w", "true"));
    lab.call(&["run", &file]).with(0);
    let mut command = lab.command(&["events", "last", "--json"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = Ended::from(command.stdout(writer).output().unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    // The run does not end with its watcher.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = lab.command(&["run", &file, "--json"]);
    assert!(command.stdout(writer).status().unwrap().success());
    assert_eq!(
        lab.call(&["runs", "show", "last", "--json"]).json()["status"],
        "completed"
    );
}

#[test]
fn a_closed_output_pipe_keeps_the_verdict() {
    let lab = Lab::new();
    std::fs::write(lab.path().join("bad.json"), "{}").unwrap();
    let failing = lab.workflow(&one_script("w", "exit 3"));
    for args in [
        &["workflow", "validate", "bad.json"][..],
        &["run", &failing],
        &["run", &failing, "--json"],
    ] {
        let open = Ended::from(lab.command(args).output().unwrap());
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let closed = lab.command(args).stdout(writer).output().unwrap();
        assert_eq!(Ended::from(closed).code, open.code, "{args:?}");
    }
}

#[test]
fn completions_are_scripts_for_each_shell() {
    let lab = Lab::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        lab.call(&["completions", shell])
            .with(0)
            .prints("runwright")
            .prints("resume");
    }
    lab.call(&["completions", "cobol"]).with(2).says("bash");
}
