//! Settling a task, and releasing one.

use kernel::coordinator::{
    AssignmentEnd, HandedOut, Rejection, TaskCommand, TaskEnd, TaskError, TaskTerms,
};
use kernel::ids::{RequestId, Seq};
use kernel::json;
use kernel::limits::{MAX_JSON_DEPTH, MAX_TASK_RESULT_BYTES};
use kernel::problem::{Problem, ProblemCode};
use serde_json::{Map, Value};

use super::super::{Api, ApiError};
use crate::access::{Action, Principal};
use crate::door::{CoordinatorError, CoordinatorName};

/// The result of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// The task.
    pub request: RequestId,
    /// The same report arrived before.
    pub is_repeated: bool,
}

impl Api {
    /// Accepts the result of a task.
    ///
    /// # Errors
    /// As [`Api::heartbeat`], or a result over the size limit.
    pub async fn report_task(
        &self,
        who: &Principal,
        queue: &str,
        (assignment, fence): (Seq, u32),
        outcome: Result<Map<String, Value>, TaskError>,
    ) -> Result<Reported, ApiError> {
        let named = self.queue(who, Action::WorkTasks, queue)?;
        let expected = match &outcome {
            Ok(_) => AssignmentEnd::Delivered,
            Err(_) => AssignmentEnd::Failed,
        };
        let Some(handed) = self.handed(&named, assignment).await? else {
            return self.repeated(&named, (assignment, fence), expected).await;
        };
        let (task, terms) = self.task(&named, &handed).await?;
        let redactor = self.run_redactor(&named, task.clone())?.redactor();
        let end = match outcome {
            Ok(mut outputs) => {
                redactor.object(&mut outputs);
                let outputs = Value::Object(outputs);
                // The depth limit of a request that nests them: events wrap them as well.
                if json::depth(&outputs) >= MAX_JSON_DEPTH {
                    return Err(too_deep());
                }
                let text = outputs.to_string();
                if text.len() > MAX_TASK_RESULT_BYTES {
                    return Err(ApiError::Coordinator(Rejection::TooLarge));
                }
                TaskEnd::Outputs(text)
            }
            Err(error) => TaskEnd::Error(TaskError {
                message: redactor.text(&error.message).into_owned(),
                ..error
            }),
        };
        let report = TaskCommand::Report {
            assignment,
            fence,
            end,
        };
        let given = (task, terms);
        self.settle(&named, handed, given, (&report, fence, expected))
            .await
    }

    /// Settles an assignment with a command, after the rest of its output is in the log. Returns
    /// the outcome, also if the assignment ended concurrently.
    async fn settle(
        &self,
        named: &CoordinatorName,
        handed: HandedOut,
        (task, terms): (Value, Option<TaskTerms>),
        (command, fence, expected): (&TaskCommand, u32, AssignmentEnd),
    ) -> Result<Reported, ApiError> {
        let assignment = handed.assignment;
        if handed.fence == fence {
            self.keep_the_rest(named, &handed, (&task, terms.as_ref()))
                .await?;
        }
        match self.door().tell_tasks(named, command).await {
            Ok(_) => {
                self.forget_outputs(named, assignment);
                Ok(Reported {
                    request: handed.request,
                    is_repeated: false,
                })
            }
            Err(CoordinatorError::Rejected(Rejection::NoAssignment(Some(_)))) => {
                self.repeated(named, (assignment, fence), expected).await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The outcome of a report on an assignment that is over.
    async fn repeated(
        &self,
        named: &CoordinatorName,
        (assignment, fence): (Seq, u32),
        expected: AssignmentEnd,
    ) -> Result<Reported, ApiError> {
        let found = self.door().look_at_coordinator(named, Clone::clone).await?;
        let past = self.door().past_assignment(&found, assignment).await?;
        if let Some(past) = past.filter(|past| past.fence == fence && past.end == expected) {
            return Ok(Reported {
                request: past.request,
                is_repeated: true,
            });
        }
        Err(self.over(named, assignment, fence, "late_report").await?)
    }

    /// Releases a task.
    ///
    /// # Errors
    /// As [`Api::heartbeat`].
    pub async fn release_task(
        &self,
        who: &Principal,
        queue: &str,
        (assignment, fence): (Seq, u32),
    ) -> Result<Reported, ApiError> {
        let named = self.queue(who, Action::WorkTasks, queue)?;
        let expected = AssignmentEnd::Released;
        let Some(handed) = self.handed(&named, assignment).await? else {
            return self.repeated(&named, (assignment, fence), expected).await;
        };
        let given = self.task(&named, &handed).await?;
        let release = TaskCommand::Release { assignment, fence };
        self.settle(&named, handed, given, (&release, fence, expected))
            .await
    }
}

fn too_deep() -> ApiError {
    let most = MAX_JSON_DEPTH - 1;
    let message = format!("nested more than {most} deep; flatten the outputs");
    ApiError::Invalid {
        what: "request",
        problems: Problem::new("/outputs", ProblemCode::TooDeep, message).into(),
    }
}
