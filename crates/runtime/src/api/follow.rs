//! Following a run as a caller who may read it.

use kernel::ids::{Seq, StreamId};

use super::{Api, ApiError, read};
use crate::access::{Action, Principal};
use crate::tail::Tail;

impl Api {
    /// Follows a run from the event after `after`, or from its first event.
    ///
    /// # Errors
    /// As [`Api::version`].
    pub async fn follow(
        &self,
        who: &Principal,
        run: &StreamId,
        after: Option<Seq>,
    ) -> Result<Tail, ApiError> {
        let loaded = self.head(who, Action::ReadRun, run).await?;
        read::permit(who, Action::ReadRun, &loaded.header)?;
        let next = after.map_or(0, |after| after.saturating_add(1));
        Ok(Tail::new(self.door(), loaded, next).await?)
    }
}
