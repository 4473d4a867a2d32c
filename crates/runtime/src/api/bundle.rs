//! Everything about a run in one document, for inspection elsewhere.

use kernel::audit::AuditAction;
use kernel::digest::Digest;
use kernel::ids::{MessageId, StreamId};
use kernel::notes;
use kernel::run::Run;

use super::{Api, ApiError, Tail};
use crate::access::{Principal, trail};
use crate::telemetry::family;
use crate::telemetry::spans::Family;

/// Reads of one run by one reader are recorded on the trail once per this many milliseconds, so
/// that reading does not fill the disk.
const READ_MS: i64 = 60_000;

/// The parts of a bundle.
pub struct BundledRun {
    /// The current state.
    pub run: Run,
    /// Its log.
    pub log: Tail,
    /// Its annotations.
    pub notes: Vec<notes::Event>,
    /// Related runs, needed for spans.
    pub family: Family,
}

impl Api {
    /// Everything about a run. Recorded on the tenant's trail.
    ///
    /// # Errors
    /// As [`Api::version`].
    pub async fn bundle(
        &self,
        who: &Principal,
        run: &StreamId,
        request_id: Option<&str>,
    ) -> Result<BundledRun, ApiError> {
        let log = self.follow(who, run, None).await?;
        let run = self.run(who, run).await?;
        let notes = self.door().notes(&run.header.stream).await?;
        let store = self.door().store();
        let minute = store.now().0.div_euclid(READ_MS);
        let stream = &run.header.stream;
        let same =
            Digest::compute(format!("{:?}\0{stream}\0{minute}", (&who.id, &who.issuer)).as_bytes());
        let message = MessageId::new(format!("bundled.{same}"));
        let on = trail::subject(stream, &run.header.owner);
        let read = (AuditAction::RunBundled, on);
        trail::record_done(&**store, who, read, message, request_id).await?;
        self.door().hints().audit(false);
        let family = family(&**store, &run.header).await?.of_workflow(&run.plan);
        Ok(BundledRun {
            run,
            log,
            notes,
            family,
        })
    }
}
