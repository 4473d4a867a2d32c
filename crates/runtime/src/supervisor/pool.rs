//! Supervisors that wait for their next process: starting one costs more than a short process does.

use parking_lot::Mutex;

use super::running::{Connection, Running};

/// The waiting supervisors. They end when it is dropped.
#[derive(Default)]
pub struct Pool {
    // Held to put or take one, never across an await.
    waiting: Mutex<Vec<Connection>>,
}

impl Pool {
    /// Takes back the supervisor of a process started by
    /// [`Supervisor::start_pooled`](super::Supervisor::start_pooled), if it can carry out another.
    /// A handle whose process still runs stops the process, as on drop.
    pub fn keep(&self, running: Running) {
        self.waiting.lock().extend(running.into_free());
    }

    /// The supervisor that waited for the shortest time.
    pub(super) fn next_waiting(&self) -> Option<Connection> {
        loop {
            let mut connection = self.waiting.lock().pop()?;
            if connection.is_alive() {
                return Some(connection);
            }
        }
    }
}
