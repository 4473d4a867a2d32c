//! `status`: the state of the runtime for people, once or after each change.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anstream::{AutoStream, ColorChoice};
use faces::coordinator::{OpenJson, Overview, OverviewJson, SnapshotJson, WorkerJson};
use kernel::coordinator::{Blocker, Contract, Coordinator, DispatchStatus};
use kernel::ids::Seq;
use kernel::time::Timestamp;
use rustix::fs::FlockOperation;

use super::folder::{ENGINE_LOCK, Folder, lock, store_file};
use super::options::{Options, Queue};
use super::views::{EVENTS, LEDGER, MAILBOX};
use super::{Refused, pretty};
use crate::{style, text};

/// The options of the command.
pub(super) const WORDS: [&str; 8] = [
    "--state-dir=",
    "--contract=",
    "--data=",
    "--queue=",
    "--tenant=",
    "--json",
    "--watch",
    "--enforce-leases",
];
/// The polling interval of a watch.
const LOOK: Duration = Duration::from_millis(500);
/// Maximum listed requests and workers.
const LISTED: usize = 10;

/// A few lines; with `--json` the same for programs; with `--watch` until it is ended.
pub(super) fn text(words: &[String], options: &Options) -> Result<String, Refused> {
    let json = words.iter().any(|word| word == "--json");
    let mut reader = Reader::open(options)?;
    if !options.watch {
        let (next, overview) = reader.read()?;
        if let (0, Some(queue)) = (next, options.queue()?) {
            unheard(&queue);
        }
        return Ok(if json {
            pretty(&overview)
        } else {
            painted(lines(&overview))
        });
    }
    let is_terminal = std::io::stdout().is_terminal();
    let mut shown: Option<(Seq, SnapshotJson)> = None;
    loop {
        let (seq, overview) = reader.read()?;
        // A lease expires without an event.
        let now = Some((seq, overview.snapshot.clone()));
        let is_news = shown != now;
        let text = match (json, is_terminal) {
            (true, _) if is_news => serde_json::to_string(&overview).map(|line| line + "\n"),
            // Ages grow: a screen is redrawn each time.
            (false, true) => Ok(format!("\x1b[H\x1b[2J{}", painted(lines(&overview)))),
            (false, false) if is_news => Ok(painted(lines(&overview)) + "\n"),
            _ => Ok(String::new()),
        };
        let text = text.expect("an overview is always JSON");
        let mut out = std::io::stdout();
        if out
            .write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .is_err()
        {
            // The reader closed its end.
            return Ok(String::new());
        }
        shown = now;
        std::thread::sleep(LOOK);
    }
}

/// Warns about a queue without events: most likely it belongs to another tenant.
fn unheard(queue: &Queue) {
    let (name, tenant) = (plain(&queue.name), plain(&queue.tenant));
    let note = format!(
        "the queue {name} of the tenant {tenant} has no event yet; --tenant=NAME selects another \
         tenant"
    );
    let _ = writeln!(std::io::stderr(), "note: {note}");
}

/// Opens a state directory to read it.
fn state(dir: &Path, options: &Options) -> Result<Folder, Refused> {
    let fail = |error: std::io::Error| Refused(format!("io error: {error}"));
    let _reading = lock(dir, ENGINE_LOCK, FlockOperation::LockShared).map_err(fail)?;
    Folder::read(dir, options)
}

/// Removes colours where they are disabled.
fn painted(text: String) -> String {
    match AutoStream::choice(&std::io::stdout()) {
        ColorChoice::Never => anstream::adapter::strip_str(&text).to_string(),
        _ => text,
    }
}

/// Width of foreign text on a line.
const WIDTH: usize = 80;

/// For each file, the data that shows whether it was written since.
type Looks = Vec<Option<(u64, SystemTime)>>;

/// The state of the other program's files, and of our store among them.
fn looks(dir: &Path) -> Looks {
    let files = [EVENTS, MAILBOX, LEDGER].map(|name| dir.join(name));
    let look = |file: &PathBuf| {
        let file = std::fs::metadata(file).ok()?;
        Some((file.len(), file.modified().ok()?))
    };
    files.iter().chain([&store_file(dir)]).map(look).collect()
}

/// A runtime that is polled.
struct Reader {
    folder: Folder,
    options: Options,
    overview: Overview,
    next: Seq,
    /// The state of the other program's files, if they are read.
    left: Option<Looks>,
}

impl Reader {
    fn open(options: &Options) -> Result<Self, Refused> {
        // A file that is written during the read is noticed in the next round.
        let looks = options.state_dir.as_deref().map(looks);
        let folder = match (options.queue()?, &options.state_dir) {
            (Some(queue), _) => Folder::queue(&queue)?,
            (None, Some(dir)) => state(dir, options)?,
            (None, None) => {
                let needs =
                    "status needs --state-dir=DIR, or --data=DIR and --queue=NAME of a server";
                return Err(needs.into());
            }
        };
        let left = looks.filter(|_| folder.is_left);
        Ok(Self {
            folder,
            options: options.clone(),
            overview: Overview::default(),
            next: 0,
            left,
        })
    }

    /// The state, and the length of the log.
    fn read(&mut self) -> Result<(Seq, OverviewJson), Refused> {
        let fail = |error: store::StoreError| Refused(format!("io error: {error}"));
        if self
            .left
            .as_ref()
            .is_some_and(|left| *left != looks(&self.folder.path))
        {
            // The other program continued, or this one has taken over.
            *self = Self::open(&self.options)?;
        }
        for event in self.folder.events(self.next).map_err(fail)? {
            self.next = event.seq + 1;
            self.overview.apply(&event);
        }
        let coordinator = self.folder.coordinator().map_err(fail)?;
        let now = self.folder.door().store().now();
        let mut overview = self.at(&coordinator, now);
        overview.contract_settled =
            self.left.is_none() && (self.next > 0 || self.options.queue.is_some());
        for worker in &mut overview.workers {
            let seen = self.folder.worker_seen(&worker.worker).map_err(fail)?;
            worker.hear(seen, now);
        }
        Ok((self.next, overview))
    }

    fn at(&self, coordinator: &Coordinator, now: Timestamp) -> OverviewJson {
        let standing = coordinator.standing(now, self.options.rule);
        self.overview.json(&standing, coordinator.contract(), now)
    }
}

fn lines(overview: &OverviewJson) -> String {
    let snapshot = &overview.snapshot;
    let mut lines = vec![if snapshot.readiness.ready {
        style::good("ready")
    } else {
        format!(
            "{}: {}",
            style::bad("not ready"),
            snapshot.readiness.reasons.join("; ")
        )
    }];
    lines.push(format!("contract   {}", contract(overview)));
    lines.push(authority(overview));
    lines.push(backlog(overview));
    lines.extend(listed(&overview.open, request));
    if let Some(cursor) = &snapshot.replay.cursor {
        let unknown = Blocker::UnknownCursor.to_string();
        let to_go = if snapshot.readiness.reasons.contains(&unknown) {
            "which names no event".to_owned()
        } else {
            format!("{} events to go", snapshot.replay.pending_events)
        };
        lines.push(format!("replay     from {}, {to_go}", plain(cursor)));
    }
    if snapshot.replay.deferred_leader_notification {
        lines.push("leader     will be notified later".to_owned());
    }
    if overview.unread_mail > 0 {
        let oldest = age_of(overview, overview.oldest_mail_at.as_deref());
        lines.push(format!(
            "mail       {} unread, the oldest for {oldest}",
            overview.unread_mail
        ));
    }
    if !overview.workers.is_empty() {
        let count = overview
            .workers
            .iter()
            .filter(|one| is_stalled(one))
            .count();
        lines.push(format!(
            "workers    {}, {count} stalled",
            overview.workers.len()
        ));
    }
    lines.extend(listed(&by_interest(&overview.workers), |one| worker(one)));
    lines.push(String::new());
    lines.join("\n")
}

/// The contract in force, and whether it may still change.
fn contract(overview: &OverviewJson) -> String {
    let kept = overview.contract;
    let other = match kept {
        Contract::Native => Contract::Published,
        Contract::Published => Contract::Native,
    };
    if overview.contract_settled {
        kept.to_string()
    } else {
        format!("{kept}, or {other} if the first command has --contract={other}")
    }
}

fn authority(overview: &OverviewJson) -> String {
    let authority = &overview.snapshot.authority;
    let Some(owner) = &authority.owner else {
        return "authority  none".to_owned();
    };
    let word = if authority.stale { "expired" } else { "until" };
    let shown = |text: &Option<String>| plain(text.as_deref().unwrap_or_default());
    let mut line = format!(
        "authority  {} ({}), {word} {}",
        plain(owner),
        shown(&authority.lease_id),
        shown(&authority.leased_until),
    );
    if overview.phase.is_some() {
        let phase = shown(&overview.phase);
        let ago = age_of(overview, overview.last_heartbeat_at.as_deref());
        line.push_str(&format!("; {phase}, {ago} ago"));
    }
    line
}

fn backlog(overview: &OverviewJson) -> String {
    let backlog = &overview.snapshot.backlog;
    let oldest = |status: DispatchStatus| {
        let mut open = overview.open.iter().filter(|open| open.status == status);
        open.next()
            .map(|open| format!(" (the oldest for {})", text::ms(open.age_ms)))
            .unwrap_or_default()
    };
    let last = |at: &Option<String>| match at {
        Some(at) => format!(" (the last {} ago)", age_of(overview, Some(at))),
        None => String::new(),
    };
    format!(
        "backlog    {} pending{}, {} notified{}, {} delivered{}, {} failed{}",
        backlog.pending,
        oldest(DispatchStatus::Pending),
        backlog.notified,
        oldest(DispatchStatus::Notified),
        backlog.delivered,
        last(&overview.last_delivered_at),
        backlog.failed,
        last(&overview.last_failed_at),
    )
}

/// Sorts workers by interest: with a task, then stalled, then by their last contact.
fn by_interest(workers: &[WorkerJson]) -> Vec<&WorkerJson> {
    let mut workers: Vec<&WorkerJson> = workers.iter().collect();
    workers.sort_by_key(|worker| (worker.assignments == 0, !is_stalled(worker), worker.age_ms));
    workers
}

fn is_stalled(worker: &WorkerJson) -> bool {
    worker.state.starts_with("stalled")
}

/// The first of many, a line each, and the number of others.
fn listed<T>(all: &[T], line: impl Fn(&T) -> String) -> Vec<String> {
    let mut lines: Vec<String> = all.iter().take(LISTED).map(line).collect();
    if all.len() > LISTED {
        lines.push(format!("           and {} more", all.len() - LISTED));
    }
    lines
}

fn request(open: &OpenJson) -> String {
    let OpenJson {
        request_id,
        target,
        status,
        age_ms,
        ..
    } = open;
    let age = text::ms(*age_ms);
    let (request_id, target) = (plain(request_id), plain(target));
    format!("           {request_id} for {target}: {status} for {age}")
}

fn worker(worker: &WorkerJson) -> String {
    let WorkerJson {
        worker,
        task_id,
        assignments,
        state,
        age_ms,
        ..
    } = worker;
    let with = match assignments {
        0 => String::new(),
        1 => format!(" with {}", plain(task_id)),
        more => format!(" with {} and {} more", plain(task_id), more - 1),
    };
    let worker = plain(worker);
    let state = if state.starts_with("stalled") {
        style::warn(plain(state))
    } else {
        plain(state)
    };
    let ago = text::ms(*age_ms);
    format!("           {worker}{with}: {state}, last report {ago} ago")
}

fn plain(text: &str) -> String {
    text::one_line(text, WIDTH)
}

/// The age of a time.
fn age_of(overview: &OverviewJson, at: Option<&str>) -> String {
    let time = |text: &str| Timestamp::parse(text);
    match (time(&overview.at), at.and_then(time)) {
        (Some(now), Some(at)) => text::ms(now.ms_since(at)),
        _ => "an unknown time".to_owned(),
    }
}
