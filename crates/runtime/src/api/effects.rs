//! The ledger of a run's effects.

use kernel::definition::PlanNode;
use kernel::ids::StreamId;
use kernel::run::effects::{EffectAttempt, Effects, Ledger, ReceiverKey};
use serde_json::{Map, Value};

use super::{Api, ApiError};
use crate::access::Principal;
use crate::nodes::Registry;

/// Events read at a time.
const PAGE: usize = 256;

impl Effects for Registry {
    fn receiver_key(&self, node: &PlanNode, inputs: &Map<String, Value>) -> Option<ReceiverKey> {
        self.get(&node.type_id)?.effect(&node.config, inputs)
    }
}

impl Api {
    /// Every attempt of every effect of a run, in the order of their starts.
    ///
    /// # Errors
    /// As [`Api::version`].
    pub async fn effects(
        &self,
        who: &Principal,
        run: &StreamId,
    ) -> Result<Vec<EffectAttempt>, ApiError> {
        let mut log = self.follow(who, run, None).await?;
        let (header, plan) = (log.header().clone(), log.shared_plan());
        let mut ledger = Ledger::new(&header, &plan, &*self.engine.inner.registry);
        loop {
            let page = log.page(PAGE).await?;
            page.events
                .iter()
                .for_each(|(event, _)| ledger.apply(event));
            if page.events.is_empty() || page.next >= page.end {
                return Ok(ledger.into_attempts());
            }
        }
    }
}
