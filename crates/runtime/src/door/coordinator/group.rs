//! Several commands at once: decided one on the other, made durable together.

use std::collections::HashSet;

use futures_util::future::join_all;
use kernel::coordinator::{CoordinatorCommand, LeaseRule};
use store::{Conflict, Guard, HoldChange, StoreError};

use super::{CoordinatorError, CoordinatorName, Told};
use crate::door::{Door, TRIES};

/// One of several commands.
#[derive(Clone, Debug)]
pub struct CoordinatorOrder {
    /// What the coordinator is told.
    pub command: CoordinatorCommand,
    /// Whether its leases expire.
    pub rule: LeaseRule,
}

/// What a command came to before anything of it is durable.
enum Draft {
    /// An answer that needs no write, or a refusal.
    Settled(Result<Told, CoordinatorError>),
    /// The answer once its batch is durable.
    Written(Told),
}

impl Door {
    /// Tells a coordinator several things, each decided on what the one before came to, and
    /// answers in the same order. Commands that name different requests and messages are given to
    /// the store at once, which makes what waits durable together. Each answer is true only once
    /// this returns; refused commands keep none of the others from being done.
    pub async fn tell_coordinator_all(
        &self,
        named: &CoordinatorName,
        orders: &[CoordinatorOrder],
    ) -> Vec<Result<Told, CoordinatorError>> {
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

    /// Tells it as many commands as need nothing of one another's keys, and adds their answers.
    /// Says what the first one lost against that was not answered.
    async fn tell_stretch(
        &self,
        named: &CoordinatorName,
        orders: &[CoordinatorOrder],
        answers: &mut Vec<Result<Told, CoordinatorError>>,
    ) -> Result<Option<Conflict>, StoreError> {
        let (mut coordinator, folded) = self.load_coordinator(named).await?;
        let mut ids = HashSet::new();
        let mut drafts = Vec::new();
        let mut batches = Vec::new();
        for order in orders {
            // What keys say of an id is known once they are durable.
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
                    let mut told = Told {
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
            appends.map(|batch| self.store.append(batch, Guard::Outside, HoldChange::Keep));
        let appended = join_all(appends).await;
        // An append that was done proves those before it, also one whose answer was lost.
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
                        // Whether it is so depends on what has no answer.
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
                // What was decided on top of it did not happen either: all of that is told again.
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

/// The requests and messages that a command names, apart from each other.
fn ids_of(command: &CoordinatorCommand) -> Vec<(bool, String)> {
    let requests = command.requests().iter();
    let requests = requests.map(|request| (true, request.to_string()));
    let mail = command.mail().map(|message| (false, message.to_owned()));
    requests.chain(mail).collect()
}
