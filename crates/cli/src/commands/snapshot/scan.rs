//! `runwright snapshot scan`.

use std::collections::BTreeMap;

use capture::recheck::mend::{Mended, mend};
use capture::recheck::{Found, Looked, Report, look, look_at};
use provenance::{Entry, Folder, Redaction};
use serde_json::json;

use super::command::surroundings;
use super::{Rooted, failed, find};
use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// What can be typed.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Looks through what is kept by the rules of now, and for the values that variables \
called like secrets have now. It says where a secret stands and of which kind it is, never the value.

  runwright snapshot scan
  PAY_TOKEN=… runwright snapshot scan latest
  runwright snapshot scan --apply

With --apply a snapshot that has secrets is written once more without them, under an id of its own, and \
the other one goes. One that is pinned, or is not what was written, stays.

Exits with 0 if nothing is there, or nothing any more; 1 if something is."
)]
pub(crate) struct Args {
    /// The snapshots: ids, the beginnings of them, names, `latest`, or paths [default: all, and what
    /// lies beside them]
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<String>,

    /// Look at all of them, which is what happens where none is named
    #[arg(long, conflicts_with = "snapshots")]
    all: bool,

    /// Put clean snapshots in the place of those that have secrets
    #[arg(long)]
    apply: bool,

    #[command(flatten)]
    rooted: Rooted,
}

/// The snapshots that are meant, by the folders they lie in; all of one where no file is named.
struct Meant {
    folder: Folder,
    files: Option<Vec<String>>,
}

impl Meant {
    fn has(&self, entry: &Entry) -> bool {
        let files = self.files.as_ref();
        files.is_none_or(|files| files.contains(&entry.file))
    }
}

/// Looks, and mends.
pub(super) fn run(args: &Args, session: &Session) -> Result<Exit, Failure> {
    let folder = args.rooted.folder(session);
    let redaction = Redaction::of_environment(surroundings());
    let mut meant: BTreeMap<String, Meant> = BTreeMap::new();
    let mut report = Report::default();
    if args.snapshots.is_empty() {
        let all = Meant {
            folder: folder.clone(),
            files: None,
        };
        meant.insert(String::new(), all);
    }
    for name in &args.snapshots {
        let kept = find(&folder, name)?;
        match Folder::holding(&kept.path) {
            Some(holding) => {
                let key = holding.snapshots().display().to_string();
                let meant = meant.entry(key).or_insert_with(|| Meant {
                    folder: holding,
                    files: Some(Vec::new()),
                });
                let file = kept.path.file_name().unwrap_or_default();
                let files = meant.files.get_or_insert_default();
                files.push(file.to_string_lossy().into_owned());
            }
            None if args.apply => {
                return Err(Failure::new(format!(
                    "{} lies in no folder of snapshots, so nothing is put in its place",
                    kept.path.display()
                ))
                .hint("`runwright snapshot import` takes it in"));
            }
            None => {
                let looked = look_at(&folder, &kept, &redaction);
                report.snapshots.push(looked.map_err(failed)?);
            }
        }
    }
    let mut mended = Vec::new();
    for meant in meant.values() {
        if args.apply {
            let done = mend(&meant.folder, &redaction, &|entry| meant.has(entry));
            mended.push(done.map_err(failed)?);
        }
        let found = look_again(meant, &mended, &redaction)?;
        report.snapshots.extend(found.snapshots);
        report.besides.extend(found.besides);
    }
    tell(&report, &mended, args.apply, &redaction, session)?;
    Ok(match report.is_clean() {
        true => Exit::Done,
        false => Exit::Found,
    })
}

/// What is there, of what was meant and of what was put in its place.
fn look_again(meant: &Meant, mended: &[Mended], redaction: &Redaction) -> Result<Report, Failure> {
    let replaced = || mended.iter().flat_map(|mended| &mended.superseded);
    let is_meant =
        |entry: &Entry| meant.has(entry) || replaced().any(|one| one.by == entry.snapshot_id);
    let is_meant: Option<&dyn Fn(&Entry) -> bool> = match meant.files {
        None => None,
        Some(_) => Some(&is_meant),
    };
    look(&meant.folder, redaction, is_meant).map_err(failed)
}

fn tell(
    report: &Report,
    mended: &[Mended],
    applied: bool,
    redaction: &Redaction,
    session: &Session,
) -> Result<(), Failure> {
    let mut data = Data::new();
    if session.form == Form::Json {
        let found = report.snapshots.iter().filter(|one| !one.is_clean());
        let superseded = mended.iter().flat_map(|mended| &mended.superseded);
        let refused = mended.iter().flat_map(|mended| &mended.refused);
        let mut value = json!({
            "clean": report.is_clean(),
            "looked_at": report.snapshots.len(),
            "snapshots": found.collect::<Vec<_>>(),
            "besides": report.besides,
            "applied": applied,
            "superseded": superseded.collect::<Vec<_>>(),
            "refused": refused.collect::<Vec<_>>(),
            "swept": mended.iter().all(|mended| {
                mended.superseded.is_empty() || mended.pruned.has_swept
            }),
        });
        // A name, an id or a path may be anything.
        redaction.fresh().value(&mut value);
        data.json(&value)?;
        return data.done();
    }
    let line = |shown: &str| text::one_line(&redaction.fresh().text(shown), 200);
    for one in &report.snapshots {
        if one.is_clean() {
            continue;
        }
        data.line(format!("{}  {}", line(&one.snapshot_id), verdict(one)))?;
        for found in &one.found {
            data.line(format!("  {}", line(&shown(found))))?;
        }
    }
    for found in &report.besides {
        data.line(line(&shown(found)))?;
    }
    for mended in mended {
        for one in &mended.superseded {
            let (old, new) = (line(&one.snapshot_id), line(&one.by));
            data.line(format!("{old}  {} {new}", style::good("superseded by")))?;
        }
    }
    data.done()?;
    for mended in mended {
        for one in &mended.refused {
            let id = line(&one.snapshot_id);
            talk::say(format!(
                "{} {id}: {}",
                style::warn("kept:"),
                line(&one.message)
            ));
            talk::say(format!("  {}", line(&one.advice)));
        }
        if !mended.superseded.is_empty() && !mended.pruned.has_swept {
            talk::say("contents were kept: a file here cannot be read, and may need them");
        }
    }
    let looked = text::count(report.snapshots.len(), "snapshot");
    match (report.is_clean(), applied) {
        (true, _) => talk::say(format!("{looked} looked at: no secret is found in them")),
        (false, false) => talk::say(
            "`runwright snapshot scan --apply` writes them once more without what was found; change \
             secrets that somebody may have seen",
        ),
        (false, true) => talk::say("some of it is still there"),
    }
    Ok(())
}

fn verdict(one: &Looked) -> String {
    let count: u64 = one
        .found
        .iter()
        .flat_map(|found| found.kinds.values())
        .sum();
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let found = match count {
        0 => style::warn("nothing is known of its secrets here"),
        count => style::bad(text::count(count, "secret")),
    };
    match one.is_unredacted {
        true => format!("{} {found}", style::bad("UNREDACTED")),
        false => found,
    }
}

fn shown(found: &Found) -> String {
    let kinds = found.kinds.iter();
    let kinds: Vec<String> = kinds
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    let hash = found.hash.as_deref();
    let hash = hash.map_or(String::new(), |hash| format!(" ({hash})"));
    format!(
        "{} {}: {}{hash}",
        found.of.as_str(),
        found.at,
        kinds.join(", ")
    )
}
