//! The result of verifying an audit trail, for `GET /v1/audit/verify`.

use kernel::audit::{Anomaly, AnomalyKind, Report};
use kernel::ids::Seq;
use serde_json::{Value, json};

/// The closed object of OpenWOP v1 `audit-verify-result`.
pub fn audit_verification(from: Seq, to: Seq, report: &Report) -> Value {
    let checkpoints = report.checkpoints.iter().map(|checkpoint| {
        json!({
            "checkpoint": checkpoint.checkpoint,
            "atSequence": checkpoint.at_sequence,
            "merkleRoot": checkpoint.merkle_root,
            "signature": checkpoint.signature,
        })
    });
    json!({
        "fromSeq": from,
        "toSeq": to,
        "chainValid": report.is_valid(),
        "checkpointsValid": report.are_checkpoints_valid(),
        "checkpoints": checkpoints.collect::<Vec<_>>(),
        "anomalies": report.anomalies.iter().map(anomaly).collect::<Vec<_>>(),
    })
}

/// A break of the chain has the form of the protocol's first version, without a kind; other
/// anomalies have exactly the fields of their kind (OpenWOP RFC 0218).
fn anomaly(anomaly: &Anomaly) -> Value {
    let at = anomaly.at;
    match &anomaly.kind {
        AnomalyKind::ChainBreak { expected, actual } => json!({
            "atSeq": at,
            "expectedPrevHash": expected,
            "actualPrevHash": actual.map_or(String::new(), |actual| actual.to_string()),
        }),
        AnomalyKind::HashMismatch => json!({
            "atSeq": at,
            "kind": "hash-mismatch",
            "detail": "the entry differs from the one that was written",
        }),
        AnomalyKind::Missing => json!({
            "atSeq": at,
            "kind": "missing-entry",
            "detail": "the entry is missing or cannot be read",
        }),
        AnomalyKind::MerkleMismatch { checkpoint } => json!({
            "atSeq": at, "kind": "merkle-mismatch", "checkpoint": checkpoint,
        }),
        AnomalyKind::SignatureInvalid { checkpoint } => json!({
            "atSeq": at, "kind": "signature-invalid", "checkpoint": checkpoint,
        }),
    }
}
