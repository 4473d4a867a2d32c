//! The table from a coordinator's rejection to a status.

use hyper::StatusCode;
use kernel::coordinator::{AssignmentEnd, Rejection};

use crate::problem::Problem;

/// The problem of a rejection. Its text is ours: it quotes nothing of the request.
pub(crate) fn refused(rejection: &Rejection) -> Problem {
    let code = rejection.code();
    let status = match rejection {
        Rejection::InvalidRequest(_) | Rejection::InvalidField(_) => StatusCode::BAD_REQUEST,
        Rejection::UnknownRequest(_)
        | Rejection::UnknownMail(_)
        | Rejection::UnknownEvent
        | Rejection::UnknownWorker(_)
        | Rejection::NoAssignment(None) => StatusCode::NOT_FOUND,
        Rejection::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Rejection::Full(_) => StatusCode::SERVICE_UNAVAILABLE,
        Rejection::LeaseHeld { .. }
        | Rejection::OwnerMismatch { .. }
        | Rejection::NoLease
        | Rejection::LeaseExpired
        | Rejection::DuplicateRequest(_)
        | Rejection::InvalidTransition { .. }
        | Rejection::MailDelivered(_)
        | Rejection::DuplicateMail(_)
        | Rejection::NoReplay
        | Rejection::NoAssignment(Some(_)) => StatusCode::CONFLICT,
    };
    let message = match rejection {
        Rejection::NoAssignment(end) => over(*end).to_owned(),
        other => other.to_string(),
    };
    let problem = Problem::new(status, code, message);
    match rejection {
        Rejection::Full(_) => problem.retry_after(5),
        _ => problem,
    }
}

fn over(end: Option<AssignmentEnd>) -> &'static str {
    match end {
        None => "there is no such assignment of this fence; stop the work",
        Some(AssignmentEnd::Lost) => {
            "heartbeats stayed away and the task was taken back; stop the work"
        }
        Some(AssignmentEnd::Withdrawn) => "nobody wants the task any more; stop the work",
        Some(AssignmentEnd::Released) => "the task was given back; stop the work",
        Some(AssignmentEnd::Delivered) => {
            "another result of this assignment was taken before, and stands; this one is not kept"
        }
        Some(AssignmentEnd::Failed) => {
            "a failure of this assignment was taken before, and stands; this report is not kept"
        }
    }
}
