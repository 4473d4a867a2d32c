//! The command line: every command's help, the environment and the exit codes.

use super::{cell, check_page, head, row};
use crate::support::Lab;

/// Begins the options that every command repeats.
const COMMON: &str = "Options of every command:";
/// Has one help for all its commands, as the tool that it replaces.
const ONE_HELP: &str = "runtime";

#[test]
fn reference_of_the_command_line_is_current() {
    let lab = Lab::new();
    let mut text = String::from(
        "Each section is the output of `--help`. The options of every command are listed once, in \
         the first section.\n\n",
    );
    describe(&lab, &mut Vec::new(), &mut text);
    check_page("cli.md", "Command line", &text);
}

#[test]
fn reference_of_exit_codes_is_current() {
    let help = help(&Lab::new(), &[]);
    let mut text = String::from("`runwright` ends with one of these codes.\n\n");
    text.push_str(&head(&["Code", "Meaning"]));
    let mut codes: Vec<(String, String)> = Vec::new();
    for line in section(&help, "Exit codes:") {
        let (first, rest) = line.split_at(line.len().min(7));
        match (first.trim(), codes.last_mut()) {
            ("", Some((_, meaning))) => meaning.push_str(&format!(" {}", rest.trim())),
            (code, _) => codes.push((code.to_owned(), rest.trim().to_owned())),
        }
    }
    assert!(codes.len() > 4, "{help}");
    for (code, meaning) in codes {
        text.push_str(&row(&[&code, &cell(&meaning)]));
    }
    check_page("exit-codes.md", "Exit codes", &text);
}

fn describe(lab: &Lab, command: &mut Vec<String>, text: &mut String) {
    let help = help(lab, command);
    let shown = if command.is_empty() {
        help.clone()
    } else {
        without_common(&help)
    };
    let names = std::iter::once("runwright").chain(command.iter().map(String::as_str));
    let name = names.collect::<Vec<_>>().join(" ");
    text.push_str(&format!(
        "## {name}\n\n```text\n{}\n```\n\n",
        shown.trim_end()
    ));
    if command.first().is_some_and(|name| name == ONE_HELP) {
        return;
    }
    for line in section(&help, "Commands:") {
        let name = line
            .strip_prefix("  ")
            .and_then(|line| line.split(' ').next());
        let Some(name) = name.filter(|name| !name.is_empty() && *name != "help") else {
            continue;
        };
        command.push(name.to_owned());
        describe(lab, command, text);
        command.pop();
    }
}

fn help(lab: &Lab, command: &[String]) -> String {
    let mut args: Vec<&str> = command.iter().map(String::as_str).collect();
    args.push("--help");
    let printed = lab.call(&args).with(0).stdout;
    let lines: Vec<&str> = printed.lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// The lines under a heading, up to the next empty line.
fn section<'a>(help: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = help.lines().skip_while(|line| *line != heading).skip(1);
    lines.take_while(|line| !line.is_empty()).collect()
}

fn without_common(help: &str) -> String {
    let mut kept = String::new();
    let mut is_common = false;
    for line in help.lines() {
        match line {
            COMMON => is_common = true,
            _ if is_common => is_common = line.is_empty() || line.starts_with(' '),
            _ => {}
        }
        if !is_common {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}
