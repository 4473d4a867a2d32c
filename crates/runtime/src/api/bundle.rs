//! All there is of a run at once, for somebody to look at elsewhere.

use kernel::audit::AuditAction;
use kernel::digest::Digest;
use kernel::ids::{MessageId, StreamId};
use kernel::notes;
use kernel::run::Run;

use super::{Api, ApiError, Tail};
use crate::access::{Principal, trail};
use crate::telemetry::family;
use crate::telemetry::spans::Family;

/// The same reader of the same run is kept on the trail once in so many milliseconds, so that
/// nobody fills a disk by reading.
const READ_MS: i64 = 60_000;

/// What a bundle is made of.
pub struct BundledRun {
    /// The run as it stands.
    pub run: Run,
    /// Its log.
    pub log: Tail,
    /// What was said about it.
    pub notes: Vec<notes::Event>,
    /// What its spans are made of besides its log.
    pub family: Family,
}

impl Api {
    /// All there is of a run. That somebody took it is kept on the tenant's trail.
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
            Digest::of(format!("{:?}\0{stream}\0{minute}", (&who.id, &who.issuer)).as_bytes());
        let (action, message) = (
            AuditAction::RunBundled,
            MessageId::new(format!("bundled.{same}")),
        );
        let read = (stream, &run.header.owner);
        trail::record_done(&**store, who, action, read, message, request_id).await?;
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
