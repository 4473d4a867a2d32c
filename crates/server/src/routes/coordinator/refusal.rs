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
        None => "no assignment with this fence; stop the work",
        Some(AssignmentEnd::Lost) => {
            "heartbeats were missing and the task was reassigned; stop the work"
        }
        Some(AssignmentEnd::Withdrawn) => "the task is no longer needed; stop the work",
        Some(AssignmentEnd::Released) => "the task was returned to the queue; stop the work",
        Some(AssignmentEnd::Delivered) => {
            "this assignment already has another result, which counts; this one is dropped"
        }
        Some(AssignmentEnd::Failed) => {
            "this assignment already has a failure, which counts; this report is dropped"
        }
    }
}
