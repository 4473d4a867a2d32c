//! The driver's writes: through the door with the current state, repeated until their outcome is
//! known.

use std::time::Duration;

use kernel::run::{Command, Driving, Envelope, Rejection};
use store::{Guard, LeaseChange, StoreError};

use super::{CHECKPOINT_EVERY, Driver, Stop};
use crate::door::{AppendError, DoorError, Indeterminate};

/// Why a command was not written.
pub(super) enum NotAppended {
    /// It was rejected by the state of the whole log.
    Rejected(Rejection),
    /// Driving ends.
    Stopped(Stop),
}

impl From<Stop> for NotAppended {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}

impl Driver {
    /// Writes through the door with the current state. After a lost race the log is read and the
    /// command decided again.
    pub(super) async fn append(
        &mut self,
        envelope: &Envelope,
        guard: Guard,
    ) -> Result<(), NotAppended> {
        let mut wait = Duration::from_millis(10);
        loop {
            self.reload_if_needed().await?;
            let draining;
            let envelope = if self.is_draining() {
                // The next holder starts the attempts that this end makes ready.
                draining = Envelope {
                    driving: Driving::Elsewhere,
                    ..envelope.clone()
                };
                &draining
            } else {
                envelope
            };
            let run = self.run.take().expect("loaded just above");
            let lease = if self.running.is_empty() && guard != Guard::Outside {
                LeaseChange::Release
            } else {
                LeaseChange::Keep
            };
            let result = self
                .engine
                .door()
                .append_driven(run, envelope, guard, lease)
                .await;
            match result {
                Ok((done, released)) => {
                    self.engine.note_write(Ok(()));
                    self.remember(&done.events);
                    self.run = Some(done.run);
                    self.released = released;
                    self.checkpoint(CHECKPOINT_EVERY).await;
                    return Ok(());
                }
                Err(AppendError {
                    error: DoorError::Rejected(rejection),
                    run,
                    ..
                }) => {
                    self.run = run.map(|run| *run);
                    if self.is_current().await? {
                        return Err(NotAppended::Rejected(rejection));
                    }
                    // Another process wrote since the log was read: decide again.
                    self.run = None;
                }
                Err(AppendError {
                    error,
                    indeterminate,
                    ..
                }) => match error {
                    DoorError::Store(StoreError::Fenced | StoreError::Missing) => {
                        return Err(Stop::Lost.into());
                    }
                    // The winner may have changed the child's inputs: look again.
                    DoorError::Store(StoreError::Conflict(_))
                        if matches!(envelope.command, Command::Dispatch { .. }) =>
                    {
                        return Err(NotAppended::Rejected(Rejection::StaleAttempt));
                    }
                    DoorError::Store(StoreError::Conflict(_)) => {}
                    error => {
                        tracing::warn!(run = %self.lease.stream, %error, "an append failed");
                        if let DoorError::Store(error) = &error {
                            self.engine.note_write::<()>(Err(error));
                        }
                        self.pause(&mut wait).await?;
                        // It may have been written: the log shows it once it can be read.
                        if let Some(indeterminate) = indeterminate
                            && self.was_written(&indeterminate).await?
                        {
                            self.remember(&indeterminate.events);
                            self.reload_if_needed().await?;
                            return Ok(());
                        }
                    }
                },
            }
        }
    }

    /// Whether the current state is that of the whole log. Only then may it reject a command: a
    /// write would find a stale state, a rejection writes nothing.
    async fn is_current(&self) -> Result<bool, Stop> {
        let Some(run) = &self.run else {
            return Ok(false);
        };
        let mut wait = Duration::from_millis(10);
        let store = self.engine.door().store();
        loop {
            match store.load_head(&self.lease.stream).await {
                Ok(head) => return Ok(head.next_seq == run.head.next_seq),
                Err(StoreError::Missing) => return Err(Stop::Lost),
                Err(error) => {
                    tracing::warn!(run = %self.lease.stream, %error, "a run cannot be read");
                    self.pause(&mut wait).await?;
                }
            }
        }
    }

    async fn was_written(&self, indeterminate: &Indeterminate) -> Result<bool, Stop> {
        let mut wait = Duration::from_millis(10);
        loop {
            let door = self.engine.door();
            match door.was_written(&self.lease.stream, indeterminate).await {
                Ok(was_written) => return Ok(was_written),
                Err(StoreError::Missing) => return Err(Stop::Lost),
                Err(error) => {
                    tracing::warn!(run = %self.lease.stream, %error, "a run cannot be read");
                    self.pause(&mut wait).await?;
                }
            }
        }
    }

    pub(super) async fn reload_if_needed(&mut self) -> Result<(), Stop> {
        let mut wait = Duration::from_millis(10);
        while self.run.is_none() {
            match self.engine.door().load(&self.lease.stream).await {
                Ok(run) => {
                    self.run = Some(run);
                    self.was_read = true;
                }
                Err(StoreError::Missing) => return Err(Stop::Lost),
                Err(error) => {
                    tracing::warn!(run = %self.lease.stream, %error, "a run cannot be read");
                    self.pause(&mut wait).await?;
                }
            }
        }
        Ok(())
    }

    /// Waits, longer each time, but never past the end of the lease. While stopping it does not
    /// wait for an unavailable store.
    pub(super) async fn pause(&self, wait: &mut Duration) -> Result<(), Stop> {
        tokio::select! {
            biased;
            () = self.lost.cancelled() => Err(Stop::Lost),
            () = self.engine.inner.shutdown.stop.cancelled() => Err(Stop::Lost),
            () = tokio::time::sleep(*wait) => {
                *wait = (*wait * 2).min(Duration::from_secs(1));
                Ok(())
            }
        }
    }
}
