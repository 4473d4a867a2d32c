//! `status`: how the runtime stands, for people.

use kernel::coordinator::Standing;

use super::options::Options;
use super::{Refused, snapshot};
use crate::style;

/// A few lines; with `--json` the snapshot.
pub(super) fn text(words: &[String], options: &Options) -> Result<String, Refused> {
    if words.iter().any(|word| word == "--json") {
        return snapshot::text(&["--json".to_owned()], options);
    }
    if options.state_dir.is_none() {
        return Err("status needs --state-dir=DIR".into());
    }
    Ok(lines(&snapshot::standing(options)?))
}

fn lines(standing: &Standing) -> String {
    let mut lines = vec![match standing.blockers.as_slice() {
        [] => style::good("ready"),
        blockers => {
            let reasons: Vec<String> = blockers.iter().map(ToString::to_string).collect();
            format!("{}: {}", style::bad("not ready"), reasons.join("; "))
        }
    }];
    lines.push(match &standing.lease {
        None => "authority  nobody".to_owned(),
        Some(lease) => {
            let word = if standing.is_stale {
                "expired"
            } else {
                "until"
            };
            format!(
                "authority  {} ({}), {word} {}",
                lease.owner, lease.lease_id, lease.leased_until
            )
        }
    });
    let backlog = &standing.backlog;
    lines.push(format!(
        "backlog    {} pending, {} notified, {} delivered, {} failed",
        backlog.pending, backlog.notified, backlog.delivered, backlog.failed
    ));
    if let Some(cursor) = &standing.cursor {
        lines.push(format!(
            "replay     from {cursor}, {} events to go",
            standing.pending_events
        ));
    }
    lines.push(String::new());
    lines.join("\n")
}
