//! Several commands at once: decided in order, made durable together.

use std::collections::HashSet;

use futures_util::future::join_all;
use kernel::coordinator::{CoordinatorCommand, LeaseRule};
use store::{Conflict, Guard, LeaseChange, StoreError};

use super::{CommandResult, CoordinatorError, CoordinatorName};
use crate::door::{Door, TRIES};

/// One of several commands.
#[derive(Clone, Debug)]
pub struct CoordinatorOrder {
    /// The command.
    pub command: CoordinatorCommand,
    /// Whether its leases expire.
    pub rule: LeaseRule,
}

/// The result of a command before its batch is durable.
enum Draft {
    /// A result that needs no write, or a rejection.
    Settled(Result<CommandResult, CoordinatorError>),
    /// The result once its batch is durable.
    Written(CommandResult),
}

impl Door {
    /// Sends several commands to a coordinator. Each is decided on the result of the one before;
    /// results are in the same order. Commands with different requests and messages go to the store
    /// at once, which makes them durable together. A result is valid only after this returns. A
    /// rejected command does not prevent the others.
    pub async fn tell_coordinator_all(
        &self,
        named: &CoordinatorName,
        orders: &[CoordinatorOrder],
    ) -> Vec<Result<CommandResult, CoordinatorError>> {
        let mut answers = Vec::with_capacity(orders.len());
        let mut tries = 0;
        while answers.len() < orders.len() {
            let rest = &orders[answers.len()..];
            let before = answers.len();
            let lost = match self.tell_stretch(named, rest, &mut answers).await {
                Ok(lost) => lost,
                Err(error) => {
                    answers.push(Err(error.into()));
                    None
                }
            };
            if answers.len() > before {
                tries = 0;
            }
            if let Some(conflict) = lost {
                tries += 1;
                if tries > TRIES {
                    answers.push(Err(StoreError::Conflict(conflict).into()));
                    tries = 0;
                }
            }
        }
        answers
    }

    /// Sends the longest prefix of commands that share no keys, and appends their results. Returns
    /// the conflict of the first one that lost a race and has no result.
    async fn tell_stretch(
        &self,
        named: &CoordinatorName,
        orders: &[CoordinatorOrder],
        answers: &mut Vec<Result<CommandResult, CoordinatorError>>,
    ) -> Result<Option<Conflict>, StoreError> {
        let (mut coordinator, folded) = self.load_coordinator(named).await?;
        let mut ids = HashSet::new();
        let mut drafts = Vec::new();
        let mut batches = Vec::new();
        for order in orders {
            // The keys of an id are known only once they are durable.
            let names = ids_of(&order.command);
            if names.iter().any(|name| ids.contains(name)) {
                break;
            }
            ids.extend(names);
            let recall = self.recall(&coordinator, &order.command).await?;
            let now = self.store.now();
            let decided = coordinator
                .clone()
                .decide(&order.command, &recall, order.rule, now);
            drafts.push(match decided {
                Err(rejection) => Draft::Settled(Err(rejection.into())),
                Ok(decision) => {
                    coordinator = decision.after.clone();
                    let mut told = CommandResult {
                        event: decision.event,
                        written: None,
                        after: decision.after,
                    };
                    match decision.batch {
                        None => Draft::Settled(Ok(told)),
                        Some(batch) => {
                            told.written = Some(batch.first_seq());
                            batches.push(batch);
                            Draft::Written(told)
                        }
                    }
                }
            });
        }
        let appends = batches.into_iter();
        let appends =
            appends.map(|batch| self.store.append(batch, Guard::Outside, LeaseChange::Keep));
        let appended = join_all(appends).await;
        // A durable append proves the earlier ones durable, even if their response was lost.
        let proven = appended.iter().rposition(Result::is_ok);
        let mut appended = appended.into_iter().enumerate();
        let mut durable = None;
        let mut doubt: Option<(usize, StoreError)> = None;
        let mut lost = None;
        for draft in drafts {
            let told = match draft {
                Draft::Written(told) => told,
                Draft::Settled(answer) => {
                    answers.push(match &doubt {
                        // This result depends on an append whose outcome is unknown.
                        Some((place, error)) if proven.is_none_or(|proven| proven < *place) => {
                            Err(error.clone().into())
                        }
                        _ => answer,
                    });
                    continue;
                }
            };
            match appended.next().expect("a batch of each") {
                (_, Ok(_)) => {
                    durable = Some(told.after.clone());
                    answers.push(Ok(told));
                }
                // Later commands were decided on this one and did not happen either: all of them
                // are sent again.
                (_, Err(StoreError::Conflict(conflict))) => {
                    lost = Some(conflict);
                    break;
                }
                (place, Err(error)) => {
                    doubt = Some((place, error.clone()));
                    answers.push(Err(error.into()));
                }
            }
        }
        if let Some(after) = durable {
            self.checkpoint_coordinator(&after, folded).await;
        }
        Ok(lost)
    }
}

/// The ids of requests and messages in a command; the flag separates the two.
fn ids_of(command: &CoordinatorCommand) -> Vec<(bool, String)> {
    let requests = command.requests().iter();
    let requests = requests.map(|request| (true, request.to_string()));
    let mail = command.mail().map(|message| (false, message.to_owned()));
    requests.chain(mail).collect()
}
