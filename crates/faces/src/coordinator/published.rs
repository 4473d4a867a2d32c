//! Refusals in the published program's words. They contain ids, as its clients expect; a server
//! that is reachable by other users must not return them.

use kernel::coordinator::Rejection;

/// The part of the engine that rejects.
pub fn class(rejection: &Rejection) -> &'static str {
    match rejection {
        Rejection::LeaseHeld { .. }
        | Rejection::OwnerMismatch { .. }
        | Rejection::NoLease
        | Rejection::LeaseExpired => "authority",
        Rejection::DuplicateRequest(_)
        | Rejection::InvalidRequest(_)
        | Rejection::UnknownRequest(_)
        | Rejection::InvalidTransition { .. } => "dispatch",
        Rejection::UnknownMail(_) | Rejection::MailDelivered(_) | Rejection::DuplicateMail(_) => {
            "mailbox"
        }
        Rejection::UnknownEvent | Rejection::NoReplay => "replay",
        Rejection::UnknownWorker(_) | Rejection::NoAssignment(_) => "worker",
        Rejection::InvalidField(_) | Rejection::Full(_) | Rejection::TooLarge => "command",
    }
}

/// The refusal, with its class as a prefix.
pub fn text(rejection: &Rejection) -> String {
    let what = match rejection {
        Rejection::LeaseHeld { owner } => format!("lease already held by {owner}"),
        Rejection::OwnerMismatch { owner } => format!("owner mismatch: lease held by {owner}"),
        Rejection::NoLease => "no lease currently held".to_owned(),
        Rejection::DuplicateRequest(id) => format!("duplicate dispatch request id: {id}"),
        Rejection::InvalidRequest(id) => {
            format!("invalid dispatch request id: {:?}", id.as_str())
        }
        Rejection::UnknownRequest(id) => format!("dispatch record not found: {id}"),
        Rejection::InvalidTransition { request, from, to } => {
            format!("invalid transition for {request}: {from} -> {to}")
        }
        Rejection::UnknownMail(id) => format!("mailbox record not found: {id}"),
        Rejection::MailDelivered(id) => format!("mailbox message already delivered: {id}"),
        other => other.to_string(),
    };
    format!("{} error: {what}", class(rejection))
}
