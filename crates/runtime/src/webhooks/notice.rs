//! Notices of questions, to the address that their run names.

use kernel::registry::WebhookContract;
use kernel::run::{Event, RunEvent};
use kernel::stream::StreamHeader;
use store::StoreError;
use url::Url;

use crate::api::{ShownToken, open_question, owner_token};
use crate::engine::Engine;

/// A notice to send.
pub(super) struct Notice {
    /// Where it goes.
    pub(super) url: Url,
    /// The major of the protocol that it is in.
    pub(super) contract: WebhookContract,
    /// The token that answers the question. `None` if its answer needs another credential.
    pub(super) token: Option<ShownToken>,
}

impl Notice {
    /// The notice of an event that asks a question. `None` once the question is settled, and if a
    /// worker answers it.
    pub(super) async fn new(
        engine: &Engine,
        header: &StreamHeader,
        event: &Event,
    ) -> Result<Option<Self>, StoreError> {
        let (RunEvent::InterruptRequested { interrupt_id, .. }, Some(notices)) =
            (&event.body, &header.policy.question_notices)
        else {
            return Ok(None);
        };
        let run = engine.door().load(&header.stream).await?;
        let now = engine.door().store().now();
        let Some(open) = open_question(&run, interrupt_id, now) else {
            return Ok(None);
        };
        let url = Url::parse(&notices.url).map_err(|_| {
            StoreError::Corrupt("the address for notices of a run is invalid".into())
        })?;
        Ok(Some(Self {
            url,
            contract: notices.contract,
            token: owner_token(engine, &run, open, now)?,
        }))
    }
}
