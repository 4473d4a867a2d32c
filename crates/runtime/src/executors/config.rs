//! Reading `runwright.toml`.

use std::path::PathBuf;
use std::time::Duration;

use kernel::limits::{MAX_RETRIES, MAX_WAIT_MS};
use kernel::problem::{closest, quoted};
use serde::Deserialize;

use super::presets::{PRESETS, preset};
use super::text::{Element, Text};
use super::{Call, Executor, Executors, PlaySettings};
use crate::toml_words;

/// A configuration error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", file.display())]
pub struct ConfigError {
    /// The file.
    pub file: PathBuf,
    /// The error and its remedy.
    pub message: String,
}

impl ConfigError {
    pub(super) fn new(file: PathBuf, message: impl Into<String>) -> Self {
        Self {
            file,
            message: message.into(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    executor: Vec<toml::Spanned<Entry>>,
    #[serde(default)]
    play: Play,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Play {
    jobs: Option<u32>,
    budget_usd: Option<f64>,
    budget_tokens: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(rename = "match")]
    pattern: Option<String>,
    argv: Option<Vec<Argument>>,
    preset: Option<String>,
    stdin: Option<String>,
    timeout: Option<String>,
    retries: Option<u32>,
    #[serde(default)]
    background: bool,
    #[serde(default)]
    inherit_env: Vec<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Skill,
    Command,
    Cli,
    Agent,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Argument {
    One(String),
    Group(Vec<String>),
}

pub(super) fn parse(text: &str, file: PathBuf) -> Result<Executors, ConfigError> {
    let fail = |message: String| ConfigError::new(file.clone(), message);
    let document: Document =
        toml::from_str(text).map_err(|error| fail(toml_words::say(text, &error)))?;
    if document.play.jobs == Some(0) {
        let what = "[play] jobs must be at least 1; remove it to use one per processor";
        return Err(fail(what.into()));
    }
    if document
        .play
        .budget_usd
        .is_some_and(|usd| !usd.is_finite() || usd < 0.0)
    {
        return Err(fail(
            "[play] budget_usd must be an amount of dollars of at least 0, such as 5.0".into(),
        ));
    }
    let mut list = Vec::new();
    for entry in document.executor {
        let line = 1 + text[..entry.span().start].matches('\n').count();
        let executor = executor(entry.into_inner());
        list.push(executor.map_err(|what| fail(format!("the executor in line {line}: {what}")))?);
    }
    Ok(Executors {
        play: PlaySettings {
            jobs: document.play.jobs,
            budget_usd: document.play.budget_usd,
            budget_tokens: document.play.budget_tokens,
        },
        file: Some(file),
        list,
    })
}

fn executor(entry: Entry) -> Result<Executor, String> {
    let kind = match entry.kind {
        Kind::Skill => Call::Skill,
        Kind::Command => Call::Command,
        Kind::Cli => Call::Cli,
        Kind::Agent => Call::Agent,
    };
    let mut inherit_env = entry.inherit_env;
    let (argv, stdin) = match (entry.argv, &entry.preset) {
        (Some(argv), None) => (argv, entry.stdin),
        (None, Some(name)) => {
            let preset = preset(name, kind).ok_or_else(|| unknown_preset(name))?;
            let argv = preset.argv.iter().map(|element| match element {
                [one] => Argument::One((*one).to_owned()),
                several => Argument::Group(several.iter().map(|&text| text.to_owned()).collect()),
            });
            inherit_env.extend(preset.inherit_env.iter().map(|&name| name.to_owned()));
            (
                argv.collect(),
                entry.stdin.or(preset.stdin.map(str::to_owned)),
            )
        }
        (Some(_), Some(_)) => return Err("it has both `argv` and `preset`; keep one".into()),
        (None, None) => return Err("it needs an `argv` or a `preset`".into()),
    };
    if argv.is_empty() {
        return Err("`argv` must name a program".into());
    }
    let text = |text: &String| {
        if text.contains('\0') {
            Err("a process argument cannot contain a NUL character".to_owned())
        } else {
            Text::parse(text)
        }
    };
    let argv = argv.iter().map(|argument| match argument {
        Argument::One(one) => text(one).map(Element::One),
        Argument::Group(group) => group
            .iter()
            .map(text)
            .collect::<Result<_, _>>()
            .map(Element::Group),
    });
    let retries = entry.retries.unwrap_or(0);
    if retries > MAX_RETRIES {
        return Err(format!("`retries` must be at most {MAX_RETRIES}"));
    }
    Ok(Executor {
        timeout: entry.timeout.as_deref().map(duration).transpose()?,
        retries,
        background: entry.background,
        inherit_env,
        kind,
        pattern: entry.pattern.unwrap_or_else(|| "*".into()),
        argv: argv.collect::<Result<_, _>>()?,
        stdin: stdin.as_ref().map(text).transpose()?,
    })
}

fn unknown_preset(name: &str) -> String {
    let names = PRESETS.map(|(name, _)| name);
    let hint = match closest(name, names) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("there are {}", names.join(", ")),
    };
    format!("unknown preset {} for this type; {hint}", quoted(name))
}

/// A duration: `500ms`, `30s`, `15m`, `2h`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "{} is not a time; write a number with ms, s, m or h, as 30m",
            quoted(text)
        )
    };
    let text = text.trim();
    let unit = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let ms = match unit.trim() {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    match number.checked_mul(ms) {
        Some(ms @ 1..=MAX_WAIT_MS) => Ok(Duration::from_millis(ms)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Places;
    use super::*;

    fn parsed(text: &str) -> Result<Executors, ConfigError> {
        parse(text, "runwright.toml".into())
    }

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        let error = parsed(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn the_first_executor_that_fits_counts() {
        let executors = parsed(
            r#"
            [play]
            jobs = 3
            [[executor]]
            type = "skill"
            match = "flow-*"
            argv = ["one", "{args}"]
            stdin = "{executor}"
            timeout = "30m"
            retries = 2
            [[executor]]
            type = "skill"
            argv = ["two", ["--rule", "{cli_rule}"]]
            [[executor]]
            type = "cli"
            match = "gem*"
            preset = "ccw"
            "#,
        )
        .unwrap();
        assert_eq!(executors.play.jobs, Some(3));
        let places = Places {
            args: "x y",
            executor: "flow-a",
            cli_tool: "gemini",
            task_id: "t",
            ..Places::default()
        };
        let one = executors.of(Call::Skill, "flow-a").unwrap();
        assert_eq!(one.argv(&places), ["one", "x y"]);
        assert_eq!(one.stdin(&places), b"flow-a");
        assert_eq!(
            (one.timeout, one.retries),
            (Some(Duration::from_secs(1800)), 2)
        );
        let two = executors.of(Call::Skill, "other").unwrap();
        assert_eq!(two.argv(&places), ["two"]);
        assert_eq!(two.program(), Some("two"));
        let cli = executors.of(Call::Cli, "gemini").unwrap();
        assert_eq!(
            cli.argv(&places),
            ["ccw", "cli", "-p", "x y", "--tool", "gemini", "--id", "t"]
        );
        assert!(cli.inherits("GEMINI_API_KEY") && !cli.inherits("AWS_SECRET_ACCESS_KEY"));
        assert!(executors.of(Call::Cli, "qwen").is_none());
        assert!(executors.of(Call::Agent, "flow-a").is_none());
    }

    #[test]
    fn every_preset_has_an_executor_for_every_type() {
        for (name, _) in PRESETS {
            for kind in Call::ALL {
                let text = format!(
                    "[[executor]]\ntype = \"{}\"\npreset = \"{name}\"",
                    kind.as_str()
                );
                let executors = parsed(&text).unwrap();
                let executor = executors.of(kind, "anything").unwrap();
                let program = executor.program().unwrap();
                assert!(program == name || name == "shell", "{name}: {program}");
                let places = Places {
                    args: "the-args",
                    ..Places::default()
                };
                let stdin = String::from_utf8(executor.stdin(&places)).unwrap();
                let everything = executor.argv(&places).join(" ") + &stdin;
                assert!(everything.contains("the-args"), "{name} {everything}");
            }
        }
    }

    #[test]
    fn mistakes_are_reported_with_their_line() {
        refused("[[executor]]\ntype = \"skil\"", "line 2, column 8");
        refused(
            "\n[[executor]]\ntype = \"skill\"",
            "the executor in line 2: it needs an `argv`",
        );
        refused("[[executor]]\ntype = \"cli\"\nargv = []", "name a program");
        refused("[[executor]]\ntype = \"cli\"\nargv = [\"{arg}\"]", "{args}");
        refused(
            "[[executor]]\ntype = \"cli\"\npreset = \"claud\"",
            "did you mean `claude`?",
        );
        refused(
            "[[executor]]\ntype = \"cli\"\nargv = [\"a\"]\npreset = \"ccw\"",
            "keep one",
        );
        refused(
            "[[executor]]\ntype = \"cli\"\nargv = [\"a\"]\ntimeout = \"soon\"",
            "as 30m",
        );
        refused(
            "[[executor]]\ntype = \"cli\"\nargv = [\"a\"]\ntimout = \"1s\"",
            "timout",
        );
        refused("[play]\njobs = 0", "at least 1");
    }

    #[test]
    fn times_have_a_unit() {
        let ms = |text| duration(text).map(|time| time.as_millis());
        assert_eq!(ms("500ms"), Ok(500));
        assert_eq!(ms("2h"), Ok(7_200_000));
        assert_eq!(ms("15 m"), Ok(900_000));
        for bad in ["", "5", "m", "5d", "0s", "-1s", "99999999999h"] {
            assert!(ms(bad).is_err(), "{bad}");
        }
    }
}
