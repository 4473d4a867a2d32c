//! The notifier: delivers pending requests to their targets, by typing into panes of tmux.
//!
//! It uses only what every client may: it reads the log, types, and reports the outcome. After a
//! crash between typing and reporting, it types again.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use faces::coordinator::{Attempt, CommandJson, DispatchRecord, Outcome, Sight};
use kernel::coordinator::{Contract, CoordinatorEvent};
use kernel::ids::{RequestId, Seq};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::group::Order;
use super::wire::{Answer, Request};
use crate::commands::coordinator::folder::Folder;
use crate::commands::coordinator::options::Options;

/// The interval of its polls.
const TICK: Duration = Duration::from_millis(500);
/// Maximum times an unconfirmed message is typed.
const MAX_SENT: u32 = 3;
/// The delay between two presses of enter, and before the check for a message.
const PRESS: Duration = Duration::from_millis(100);
/// The lines of a pane that are searched.
const TAIL: &str = "-80";
/// Programs that would run a message instead of reading it.
const SHELLS: [&str; 8] = ["sh", "bash", "zsh", "fish", "dash", "ksh", "tcsh", "nu"];
/// Texts that a pane shows while its program is busy.
const AT_WORK: [&str; 2] = ["esc to interrupt", "ctrl+c to interrupt"];

/// Pending requests, and the number of times each was typed.
pub(super) struct Notifier {
    folder: Folder,
    options: Options,
    orders: mpsc::Sender<Order>,
    next: Seq,
    waiting: BTreeMap<RequestId, Waiting>,
    leader_waits: bool,
}

struct Waiting {
    record: DispatchRecord,
    sent: u32,
    /// The last reported reason for its wait.
    told: Option<&'static str>,
}

/// The authority under which outcomes are reported.
enum Authority {
    /// The published contract needs none.
    Published,
    /// The native contract: the holder of the lease.
    Native(String),
}

/// A pane in tmux's list.
struct Pane {
    id: String,
    handle: String,
    is_dead: bool,
    is_in_mode: bool,
    program: String,
}

/// The content of a pane.
struct Seen {
    /// The number of occurrences of a text.
    times: usize,
    /// Its program works on something.
    is_at_work: bool,
}

impl Notifier {
    /// A notifier that reads the log itself and sends outcomes to the writer.
    pub(super) fn new(folder: Folder, options: Options, orders: mpsc::Sender<Order>) -> Self {
        Self {
            folder,
            options,
            orders,
            next: 0,
            waiting: BTreeMap::new(),
            leader_waits: false,
        }
    }

    /// Polls until the other end is dropped.
    pub(super) fn work(mut self, stop: &Receiver<()>) {
        while self.look().is_some() {
            match stop.recv_timeout(TICK) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// One round. `None` when the writer is gone; an unreadable store is read in the next round.
    fn look(&mut self) -> Option<()> {
        let Ok(news) = self.folder.events(self.next) else {
            return Some(());
        };
        for event in &news {
            self.next = event.seq + 1;
            self.follow(&event.body, event.at);
        }
        if self.waiting.is_empty() {
            return Some(());
        }
        let Some(authority) = self.authority() else {
            return Some(());
        };
        let panes = panes();
        let mut leader_waits = false;
        let requests: Vec<RequestId> = self.waiting.keys().cloned().collect();
        for request in requests {
            let Some(waiting) = self.waiting.get_mut(&request) else {
                continue;
            };
            let outcome = waiting.deliver(&panes).outcome();
            let request_id = request.to_string();
            if let Outcome::KeepPending(reason) = outcome {
                leader_waits |= reason.starts_with("leader_");
            }
            let said = match (outcome, &authority) {
                (Outcome::Notified(reason), _) => CommandJson::MarkNotified {
                    request_id,
                    channel: reason.to_owned(),
                },
                (Outcome::Failed(reason), Authority::Published) => CommandJson::MarkFailed {
                    request_id,
                    reason: reason.to_owned(),
                },
                (Outcome::KeepPending(_), Authority::Published) => continue,
                // It is typed again.
                (Outcome::KeepPending(_), _) if waiting.sent > 0 => continue,
                // In the native contract an undelivered request does not fail: the log records the
                // reason for its wait.
                (
                    Outcome::KeepPending(reason) | Outcome::Failed(reason),
                    Authority::Native(owner),
                ) => {
                    if waiting.told.replace(reason) == Some(reason) {
                        continue;
                    }
                    blocked(owner, &request_id, reason)
                }
            };
            // A refused report means that another client settled the request: the log shows this in
            // the next round.
            self.say(&said)?;
        }
        if leader_waits != self.leader_waits {
            self.leader_waits = leader_waits;
            self.say(if leader_waits {
                &CommandJson::DeferLeaderNotification
            } else {
                &CommandJson::ClearDeferredLeaderNotification
            })?;
        }
        Some(())
    }

    fn follow(&mut self, event: &CoordinatorEvent, at: kernel::time::Timestamp) {
        match event {
            CoordinatorEvent::DispatchQueued {
                request_id,
                target,
                metadata,
                ..
            } => {
                let record = DispatchRecord::queued(request_id, target, metadata.as_deref(), at);
                // Requests for another transport are left to it.
                if said(&record, "transport_preference") != Some("prompt_stdin") {
                    let waiting = Waiting {
                        record,
                        sent: 0,
                        told: None,
                    };
                    self.waiting.insert(request_id.clone(), waiting);
                }
            }
            CoordinatorEvent::DispatchNotified { request_id, .. }
            | CoordinatorEvent::DispatchDelivered { request_id, .. }
            | CoordinatorEvent::DispatchFailed { request_id, .. } => {
                self.waiting.remove(request_id);
            }
            CoordinatorEvent::DispatchRemoved { request_ids, .. } => {
                for request in request_ids {
                    self.waiting.remove(request);
                }
            }
            _ => {}
        }
    }

    /// The authority for notifications, if they are allowed: the native contract requires a live
    /// lease.
    fn authority(&self) -> Option<Authority> {
        let coordinator = self.folder.coordinator().ok()?;
        if coordinator.contract() == Contract::Published {
            return Some(Authority::Published);
        }
        let now = self.folder.door().store().now();
        let standing = coordinator.standing(now, self.options.rule);
        let lease = standing.lease.filter(|_| !standing.is_stale)?;
        Some(Authority::Native(lease.owner))
    }

    fn say(&self, command: &CommandJson) -> Option<Answer> {
        let json = serde_json::to_string(command).expect("a command is always JSON");
        let (reply, answer) = oneshot::channel();
        let request = Request::new(&json, &self.options);
        self.orders.blocking_send(Order { request, reply }).ok()?;
        answer.blocking_recv().ok()
    }
}

impl Waiting {
    /// One attempt, with all checks in order.
    fn deliver(&mut self, panes: &[Pane]) -> Attempt {
        let target = &self.record.target;
        let named = said(&self.record, "pane_id").unwrap_or(target);
        let is_pane = named.starts_with('%') || named.contains(':');
        if named.is_empty() || !is_pane {
            return if target.starts_with("leader") {
                Attempt::NoLeader
            } else {
                Attempt::NoTarget
            };
        }
        let is_named = |pane: &&Pane| pane.id == named || pane.handle == named;
        let Some(pane) = panes.iter().find(is_named) else {
            return if target.starts_with("leader") {
                Attempt::NoLeader
            } else {
                Attempt::Unresolved
            };
        };
        if pane.is_dead || pane.is_in_mode {
            return Attempt::NotReady;
        }
        if SHELLS.contains(&pane.program.as_str()) {
            return Attempt::Shell;
        }
        // In the native contract the request stays pending, but must not be typed forever.
        if self.sent >= MAX_SENT {
            return Attempt::Sent(Sight::Unconfirmed);
        }
        let text = self.text();
        let before = pane.look(&text).map_or(0, |seen| seen.times);
        self.sent += 1;
        if pane.send(&text).is_none() {
            return Attempt::NotSent;
        }
        std::thread::sleep(PRESS);
        // Earlier content of the pane does not confirm this text.
        let seen = pane.look(&text).filter(|seen| seen.times > before);
        Attempt::Sent(match seen.map(|seen| seen.is_at_work) {
            Some(true) => Sight::ConfirmedActive,
            Some(false) => Sight::Confirmed,
            None if self.sent < MAX_SENT => Sight::UnconfirmedYet,
            None => Sight::Unconfirmed,
        })
    }

    /// The text to type: one line without control keys.
    fn text(&self) -> String {
        let text = match said(&self.record, "trigger_message") {
            Some(text) => text.to_owned(),
            None => format!("request {}", self.record.request_id),
        };
        // A control character would end the reading program, and a shell might execute the rest.
        text.replace(char::is_control, " ")
    }
}

/// Reports a waiting request: for a person where something is missing or deferred, else for repair.
fn blocked(owner: &str, request: &str, reason: &str) -> CommandJson {
    let (owner, why) = (owner.to_owned(), format!("{request}: {reason}"));
    if reason.contains("missing") || reason.contains("deferred") {
        CommandJson::BlockOnUser { owner, reason: why }
    } else {
        CommandJson::BlockOnSystem { owner, reason: why }
    }
}

/// The panes that tmux lists.
fn panes() -> Vec<Pane> {
    let form = "#{pane_id}\t#{session_name}:#{window_index}.#{pane_index}\t#{pane_dead}\t\
                #{pane_in_mode}\t#{pane_current_command}";
    // Without a tmux server the list is empty.
    let listed = tmux(&["list-panes", "-a", "-F", form]).unwrap_or_default();
    let pane = |line: &str| {
        let mut fields = line.split('\t');
        Some(Pane {
            id: fields.next()?.to_owned(),
            handle: fields.next()?.to_owned(),
            is_dead: fields.next()? == "1",
            is_in_mode: fields.next()? == "1",
            program: fields.next()?.to_owned(),
        })
    };
    listed.lines().filter_map(pane).collect()
}

impl Pane {
    fn send(&self, text: &str) -> Option<()> {
        // The last `;` of an argument begins another command, unless it is escaped.
        let text = match text.strip_suffix(';') {
            Some(head) => &format!("{head}\\;"),
            None => text,
        };
        tmux(&["send-keys", "-t", &self.id, "-l", "--", text])?;
        let presses = if self.program == "claude" { 1 } else { 2 };
        for press in 0..presses {
            if press > 0 {
                std::thread::sleep(PRESS);
            }
            tmux(&["send-keys", "-t", &self.id, "C-m"])?;
        }
        Some(())
    }

    /// The occurrences of the text in the pane. Lines are cut at the width of the pane, so blanks
    /// are ignored; a text of blanks only never matches.
    fn look(&self, text: &str) -> Option<Seen> {
        let tail = tmux(&["capture-pane", "-t", &self.id, "-p", "-S", TAIL])?;
        let without_blanks = |text: &str| -> String { text.split_whitespace().collect() };
        let text = without_blanks(text);
        Some(Seen {
            times: if text.is_empty() {
                0
            } else {
                without_blanks(&tail).matches(&text).count()
            },
            is_at_work: AT_WORK.iter().any(|sign| tail.contains(sign)),
        })
    }
}

/// The output of tmux. `None` on failure.
fn tmux(args: &[&str]) -> Option<String> {
    let mut command = Command::new("tmux");
    command
        .args(args)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let output = command.output().ok()?;
    let printed = output.status.success().then_some(output.stdout)?;
    Some(String::from_utf8_lossy(&printed).into_owned())
}

/// A text member of the sender's metadata of a request.
fn said<'a>(record: &'a DispatchRecord, field: &str) -> Option<&'a str> {
    record.metadata.as_ref()?.get(field).and_then(Value::as_str)
}
