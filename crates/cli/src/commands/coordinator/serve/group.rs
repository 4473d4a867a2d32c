//! The server's one writer: it takes all waiting commands, applies them to the runtime, updates the
//! files once, and answers.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use kernel::coordinator::{Contract, CoordinatorCommand, LeaseRule};
use runtime::door::{CommandResult, CoordinatorOrder};
use tokio::sync::{mpsc, oneshot};

use super::wire::{Answer, Request};
use crate::commands::coordinator::exec::Compact;
use crate::commands::coordinator::folder::{Folder, agrees, store_file};
use crate::commands::coordinator::options::{Options, ViewChoice};
use crate::commands::coordinator::{Refused, exec, import, views};

/// The message for a store that is not the opened one.
const TAKEN_AWAY: &str = "io error: the state directory was taken away or replaced";

/// Maximum commands per group.
const MAX_GROUP: usize = 128;

/// A command and the receiver of its answer.
pub(super) struct Order {
    pub request: Request,
    pub reply: oneshot::Sender<Answer>,
}

/// The server's settings for every command, which override the client's.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    enforce_leases: bool,
    refresh: bool,
}

impl Terms {
    pub(super) fn from_options(options: &Options) -> Self {
        Self {
            enforce_leases: options.rule == LeaseRule::Enforced,
            refresh: options.views == ViewChoice::All,
        }
    }

    fn apply(self, request: &mut Request) {
        request.enforce_leases |= self.enforce_leases;
        request.refresh &= self.refresh;
    }
}

/// Works until all senders are gone.
pub(super) fn work(
    folder: &Folder,
    mut waiting: mpsc::Receiver<Order>,
    terms: Terms,
) -> Result<(), Refused> {
    let store = identity(&folder.path)?;
    while let Some(first) = waiting.blocking_recv() {
        let mut orders = vec![first];
        while orders.len() < MAX_GROUP
            && let Ok(order) = waiting.try_recv()
        {
            orders.push(order);
        }
        for order in &mut orders {
            terms.apply(&mut order.request);
        }
        // Writes to a removed store would be lost.
        if identity(&folder.path).ok() != Some(store) {
            answer_all(orders, |_| Answer::Refused(TAKEN_AWAY.to_owned()));
            return Err(TAKEN_AWAY.into());
        }
        let requests: Vec<&Request> = orders.iter().map(|order| &order.request).collect();
        match answers(folder, &requests) {
            Ok(answers) => {
                let mut answers = answers.into_iter();
                answer_all(orders, |_| answers.next().expect("an answer to each"));
            }
            Err(Refused(why)) => answer_all(orders, |_| Answer::Refused(why.clone())),
        }
    }
    Ok(())
}

fn answer_all(orders: Vec<Order>, mut answer: impl FnMut(&Request) -> Answer) {
    for Order { request, reply } in orders {
        // A client that no longer waits finds it in the log.
        let _ = reply.send(answer(&request));
    }
}

/// The identity of the store in the directory.
fn identity(dir: &Path) -> Result<(u64, u64), Refused> {
    let file = std::fs::metadata(store_file(dir)).map_err(super::failed)?;
    Ok((file.dev(), file.ino()))
}

/// Applies all commands; the answers are durable and in the files.
fn answers(folder: &Folder, requests: &[&Request]) -> Result<Vec<Answer>, Refused> {
    let _serial = folder.take_again().map_err(super::failed)?;
    import::take_over(folder).map_err(import::unloadable)?;
    let mut told: Vec<Result<CommandResult, Refused>> = Vec::with_capacity(requests.len());
    // A compacting command consists of two, the second after the first, so it is not grouped. The
    // requested contract can only be checked after the earlier commands.
    let goes_along =
        |a: &&Request, b: &&Request| !a.compact && !b.compact && a.contract == b.contract;
    for stretch in requests.chunk_by(goes_along) {
        let contract = match contract(folder, stretch[0].contract) {
            Ok(contract) => contract,
            Err(Refused(why)) => {
                told.extend(stretch.iter().map(|_| Err(Refused(why.clone()))));
                continue;
            }
        };
        match stretch {
            [alone] if alone.compact => told.push(exec::parse(&alone.json).and_then(|command| {
                exec::tell(folder, contract, &command, alone.rule(), Compact::After)
            })),
            stretch => told.extend(tell_stretch(folder, contract, stretch)),
        }
    }
    let shown = (told.iter().zip(requests).rev())
        .find(|(_, request)| request.refresh)
        .map_or(Ok(()), |(_, request)| show(folder, &told, request.rule()));
    let answer = |(told, request): (Result<CommandResult, Refused>, &&Request)| match (told, &shown)
    {
        (Err(Refused(why)), _) => Answer::Refused(why),
        (Ok(_), Err(why)) if request.refresh => Answer::Refused(why.clone()),
        (Ok(told), _) => Answer::Printed(exec::shown(&told.event, &told.after)),
    };
    Ok(told.into_iter().zip(requests).map(answer).collect())
}

/// The contract in force, or the one from the next command on. It is looked up only if one was
/// requested.
fn contract(folder: &Folder, asked: Option<Contract>) -> Result<Contract, Refused> {
    let Some(asked) = asked else {
        return Ok(Contract::Published);
    };
    let coordinator = folder.standing_now()?;
    if coordinator.next_seq() > 0 {
        agrees(Some(asked), coordinator.contract())?;
    }
    Ok(asked)
}

/// Sends all valid commands together.
fn tell_stretch(
    folder: &Folder,
    contract: Contract,
    stretch: &[&Request],
) -> Vec<Result<CommandResult, Refused>> {
    let read: Vec<Result<CoordinatorCommand, Refused>> = (stretch.iter())
        .map(|request| exec::parse(&request.json))
        .collect();
    let orders: Vec<CoordinatorOrder> = (stretch.iter().zip(&read))
        .filter_map(|(request, command)| {
            Some(CoordinatorOrder {
                command: command.as_ref().ok()?.clone(),
                rule: request.rule(),
            })
        })
        .collect();
    let mut told = folder.tell_all(contract, &orders).into_iter();
    let answer = |command: Result<CoordinatorCommand, Refused>| {
        command.and_then(|_| {
            told.next()
                .expect("an answer to each")
                .map_err(exec::refused)
        })
    };
    read.into_iter().map(answer).collect()
}

/// Updates the files after the last change.
fn show(
    folder: &Folder,
    told: &[Result<CommandResult, Refused>],
    rule: LeaseRule,
) -> Result<(), String> {
    let last = told.iter().rev().find_map(|told| told.as_ref().ok());
    let shown = match last {
        Some(last) => views::refresh(folder, &last.after, rule),
        None => views::catch_up(folder, rule),
    };
    shown.map_err(|Refused(why)| why)
}
