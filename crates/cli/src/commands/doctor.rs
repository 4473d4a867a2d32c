//! `runwright doctor`: checks the environment, and suggests remedies.

mod checks;
mod providers;

use serde_json::json;

use crate::args::PortArgs;
use crate::data::{Data, Table};
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, text};

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exits with 1 if a check finds that Runwright cannot work, else with 0. Check the \
                  logs themselves with `runwright verify`."
)]
pub(crate) struct Args {
    /// Also remove leftovers of settled runs and blobs that nothing refers to, and rewrite the
    /// store file so that no text of purged runs is left in it
    #[arg(long)]
    clean: bool,

    #[command(flatten)]
    ports: PortArgs,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grade {
    Ok,
    Warn,
    Bad,
}

/// Something that was looked at.
struct Finding {
    name: &'static str,
    grade: Grade,
    what: String,
    /// The suggested next step.
    next: Option<String>,
}

impl Finding {
    fn ok(name: &'static str, what: impl Into<String>) -> Self {
        Self {
            name,
            grade: Grade::Ok,
            what: what.into(),
            next: None,
        }
    }

    fn warn(name: &'static str, what: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            name,
            grade: Grade::Warn,
            what: what.into(),
            next: Some(next.into()),
        }
    }

    fn bad(name: &'static str, what: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            name,
            grade: Grade::Bad,
            what: what.into(),
            next: Some(next.into()),
        }
    }
}

/// Looks at everything.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let mut findings = vec![
        checks::version(),
        checks::folder(session),
        checks::permissions(session),
    ];
    findings.extend(checks::disk(session));
    if args.clean {
        findings.extend(checks::clean(session).await?);
    }
    findings.extend(checks::store(session).await?);
    findings.push(checks::programs());
    findings.extend(providers::check(&args.ports).await?);
    print(session.form, &findings)?;
    let is_bad = findings.iter().any(|finding| finding.grade == Grade::Bad);
    Ok(if is_bad { Exit::Found } else { Exit::Done })
}

fn print(form: Form, findings: &[Finding]) -> Result<(), Failure> {
    let mut data = Data::for_verdict();
    let mut table = Table::default();
    for Finding {
        name,
        grade,
        what,
        next,
    } in findings
    {
        let (word, shown) = match grade {
            Grade::Ok => ("ok", style::good("ok")),
            Grade::Warn => ("warn", style::warn("warn")),
            Grade::Bad => ("bad", style::bad("bad")),
        };
        match form {
            Form::Json => data.json_line(&json!({
                "check": name, "grade": word, "what": what, "next": next,
            }))?,
            Form::Text => {
                let next = next.as_ref().map(|next| format!("; {}", style::dim(next)));
                let what = text::plain(what);
                table.row([
                    shown,
                    name.to_string(),
                    format!("{what}{}", next.unwrap_or_default()),
                ]);
            }
        }
    }
    table.lines().try_for_each(|line| data.line(line))?;
    data.done()
}
