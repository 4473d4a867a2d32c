//! Claim, renew, release.

use std::time::Duration;

use kernel::ids::{HolderId, StreamId, TenantId};
use kernel::time::Timestamp;

use super::tables::{Stream, Tables};
use crate::error::{Conflict, StoreError};
use crate::types::*;

impl Tables {
    pub(super) fn claim(
        &mut self,
        stream: &StreamId,
        holder: &HolderId,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Lease, StoreError> {
        let found = self.stream(stream)?;
        if found
            .live_lease(now)
            .is_some_and(|lease| lease.holder != *holder)
            || self.concurrency_blocks(stream, found, now)
        {
            return Err(StoreError::Conflict(Conflict::Held));
        }
        Ok(self.stream_mut(stream)?.take(stream, holder, ttl, now))
    }

    pub(super) fn renew(
        &mut self,
        lease: &Lease,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Lease, StoreError> {
        let found = self.stream(&lease.stream)?;
        let on_record = found
            .lease
            .as_ref()
            .filter(|kept| kept.epoch == lease.epoch);
        let kept = on_record.ok_or(StoreError::Fenced)?;
        // While this lease was expired, a stream with the same concurrency key may have been
        // claimed.
        if kept.expires_at <= now && self.concurrency_blocks(&lease.stream, found, now) {
            return Err(StoreError::Fenced);
        }
        let renewed = Lease {
            expires_at: now.plus(ttl),
            ..kept.clone()
        };
        self.stream_mut(&lease.stream)?.lease = Some(renewed.clone());
        Ok(renewed)
    }

    pub(super) fn release(&mut self, lease: &Lease) {
        if let Ok(found) = self.stream_mut(&lease.stream)
            && found
                .lease
                .as_ref()
                .is_some_and(|kept| kept.epoch == lease.epoch)
        {
            found.lease = None;
        }
    }

    fn stream_mut(&mut self, stream: &StreamId) -> Result<&mut Stream, StoreError> {
        self.streams.get_mut(stream).ok_or(StoreError::Missing)
    }

    fn concurrency_blocks(&self, stream: &StreamId, found: &Stream, now: Timestamp) -> bool {
        found.index.concurrency_key.as_ref().is_some_and(|key| {
            self.key_held_until(found.tenant(), key, stream, now)
                .is_some()
        })
    }

    /// The latest expiry of the live leases on other streams with this concurrency key.
    pub(super) fn key_held_until(
        &self,
        tenant: &TenantId,
        key: &str,
        except: &StreamId,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let others = self.streams.iter().filter(|(stream, found)| {
            *stream != except
                && found.tenant() == tenant
                && found.index.concurrency_key.as_deref() == Some(key)
        });
        others
            .filter_map(|(_, found)| found.live_lease(now))
            .map(|lease| lease.expires_at)
            .max()
    }
}

impl Stream {
    /// Records a lease with a new epoch, replacing any earlier one.
    pub(super) fn take(
        &mut self,
        stream: &StreamId,
        holder: &HolderId,
        ttl: Duration,
        now: Timestamp,
    ) -> Lease {
        self.epoch.0 += 1;
        let lease = Lease {
            stream: stream.clone(),
            epoch: self.epoch,
            holder: holder.clone(),
            expires_at: now.plus(ttl),
        };
        self.lease = Some(lease.clone());
        lease
    }
}
