//! The ledger of a run's effects (`effect-ledger-projection.schema.json`).

use kernel::ids::{StreamId, TenantId};
use kernel::run::effects::EffectAttempt;
use serde_json::{Value, json};

use super::id::bind;

/// The attempts of the effects of a tenant's run.
pub fn effects(tenant: &TenantId, run: &StreamId, attempts: &[EffectAttempt]) -> Value {
    let row = |attempt: &EffectAttempt| {
        let mut row = json!({
            "effectId": bind(tenant, &attempt.effect),
            "nodeId": attempt.node,
            "attempt": attempt.attempt,
            "invocationId": attempt.invocation,
            "keying": attempt.keying,
            "state": attempt.state,
            "at": attempt.at.to_string(),
        });
        if let Some(key) = &attempt.provider_key {
            row["providerKey"] = json!(key);
        }
        row
    };
    let rows: Vec<Value> = attempts.iter().map(row).collect();
    json!({ "runId": bind(tenant, run), "effects": rows })
}
