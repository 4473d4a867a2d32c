//! The queued commands of a coordinator, in order of arrival.

use std::collections::VecDeque;

use kernel::coordinator::{CoordinatorCommand, CoordinatorEvent, TaskCommand, TaskEnd};
use kernel::ids::Seq;
use kernel::time::Timestamp;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::door::CoordinatorError;

/// The most commands of a group, and bytes of results and tasks in it.
const TOGETHER: usize = 64;
const BYTES_TOGETHER: usize = 4 << 20;

/// The queued commands.
#[derive(Default)]
pub(super) struct Pending {
    // Locked to add or take commands, never across an await.
    orders: Mutex<VecDeque<Order>>,
}

/// A command, and the channel for its result.
pub(super) struct Order {
    pub(super) request: Request,
    pub(super) reply: oneshot::Sender<Result<Answer, CoordinatorError>>,
}

/// The command.
pub(super) enum Request {
    Task(TaskCommand),
    Command(CoordinatorCommand),
}

/// The result.
pub(super) enum Answer {
    Task(TaskResult),
    Command(Box<CoordinatorEvent>),
}

/// The result of a command about tasks.
#[derive(Clone, Debug)]
pub struct TaskResult {
    /// The new events with their sequences; empty if nothing changed.
    pub events: Vec<(Seq, CoordinatorEvent)>,
    /// When, by the store's clock.
    pub at: Timestamp,
}

impl Request {
    /// The approximate size of its payload in bytes.
    fn bytes(&self) -> usize {
        match self {
            Self::Task(TaskCommand::Queue { payload, .. }) => payload.len(),
            Self::Task(TaskCommand::Report {
                end: TaskEnd::Outputs(text),
                ..
            }) => text.len(),
            _ => 0,
        }
    }

    /// Whether an earlier command of the group may change its keys.
    fn is_alone(&self) -> bool {
        match self {
            Self::Task(_) => false,
            Self::Command(command) => !command.requests().is_empty() || command.mail().is_some(),
        }
    }
}

impl Pending {
    /// Queues a command.
    pub(super) fn join(&self, order: Order) {
        self.orders.lock().push_back(order);
    }

    /// The next group. Commands whose caller is gone are dropped.
    pub(super) fn next_group(&self) -> Vec<Order> {
        let mut pending = self.orders.lock();
        let (mut group, mut bytes) = (Vec::new(), 0);
        while let Some(next) = pending.front() {
            if next.reply.is_closed() {
                pending.pop_front();
                continue;
            }
            bytes += next.request.bytes();
            let is_full = group.len() >= TOGETHER || bytes > BYTES_TOGETHER;
            if !group.is_empty() && (is_full || next.request.is_alone()) {
                break;
            }
            let is_alone = next.request.is_alone();
            group.extend(pending.pop_front());
            if is_alone {
                break;
            }
        }
        group
    }
}
