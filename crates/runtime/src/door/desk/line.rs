//! Those who have something to tell a coordinator, in the order they came.

use std::collections::VecDeque;

use kernel::coordinator::{CoordinatorCommand, CoordinatorEvent, TaskCommand, TaskEnd};
use kernel::ids::Seq;
use kernel::time::Timestamp;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::door::CoordinatorError;

/// What is told together at most: so many things, and bytes of results and tasks.
const TOGETHER: usize = 64;
const BYTES_TOGETHER: usize = 4 << 20;

/// What waits to be told.
#[derive(Default)]
pub(super) struct Line {
    // Held to add or take orders, never across an await.
    orders: Mutex<VecDeque<Order>>,
}

/// Something to tell, and who wants to know what it came to.
pub(super) struct Order {
    pub(super) said: Said,
    pub(super) reply: oneshot::Sender<Result<Answer, CoordinatorError>>,
}

/// What is said.
pub(super) enum Said {
    Task(TaskCommand),
    Command(CoordinatorCommand),
}

/// What it came to.
pub(super) enum Answer {
    Task(TaskTold),
    Command(Box<CoordinatorEvent>),
}

/// What a command about tasks came to.
#[derive(Clone, Debug)]
pub struct TaskTold {
    /// What happened, with its place. Nothing where nothing changed.
    pub events: Vec<(Seq, CoordinatorEvent)>,
    /// When, by the store's clock.
    pub at: Timestamp,
}

impl Said {
    /// Bytes of what it says, roughly.
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

    /// Whether what was said before it in a group may change what its keys say.
    fn is_alone(&self) -> bool {
        match self {
            Self::Task(_) => false,
            Self::Command(command) => !command.requests().is_empty() || command.mail().is_some(),
        }
    }
}

impl Line {
    /// Somebody has something to tell.
    pub(super) fn join(&self, order: Order) {
        self.orders.lock().push_back(order);
    }

    /// What is told next. Whoever went away before its turn came has said nothing.
    pub(super) fn next_group(&self) -> Vec<Order> {
        let mut line = self.orders.lock();
        let (mut group, mut bytes) = (Vec::new(), 0);
        while let Some(next) = line.front() {
            if next.reply.is_closed() {
                line.pop_front();
                continue;
            }
            bytes += next.said.bytes();
            let is_full = group.len() >= TOGETHER || bytes > BYTES_TOGETHER;
            if !group.is_empty() && (is_full || next.said.is_alone()) {
                break;
            }
            let is_alone = next.said.is_alone();
            group.extend(line.pop_front());
            if is_alone {
                break;
            }
        }
        group
    }
}
