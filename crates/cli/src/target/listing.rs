//! Runs in lists.

use kernel::document::{is_mark, run_status};
use kernel::ids::{StreamId, TenantId};
use kernel::stream::StreamKind;
use kernel::time::Timestamp;
use serde_json::Value;
use store::Listed;

use crate::lookup::{RunName, documents};
use crate::session::Form;

/// Which runs to list.
pub(crate) struct Filter<'a> {
    /// Only runs with one of these statuses, if there are any.
    pub statuses: &'a [String],
    /// Only runs of this tenant.
    pub tenant: Option<&'a TenantId>,
    /// Only runs of this workflow.
    pub workflow: Option<&'a str>,
    /// Only runs with this tag.
    pub tag: Option<&'a str>,
    /// Only the children of this run.
    pub parent: Option<&'a RunName>,
    /// At most this many runs.
    pub limit: usize,
    /// The output format: only people see what a run waits for.
    pub form: Form,
}

impl Filter<'_> {
    /// The filter in the query of a server. `parent` is the id of the parent.
    pub(super) fn query(&self, parent: Option<&StreamId>, max_page: usize) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for status in self.statuses {
            query.append_pair("status", status);
        }
        let others = [
            ("workflowId", self.workflow),
            ("tag", self.tag),
            ("parentRunId", parent.map(StreamId::as_str)),
        ];
        for (name, value) in others {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        query.append_pair("limit", &self.limit.min(max_page).to_string());
        query.finish()
    }
}

/// Listed runs.
pub(crate) struct Listing {
    /// The runs.
    pub rows: Vec<Row>,
    /// Whether further runs match.
    pub has_more: bool,
}

/// A run in lists.
pub(crate) struct Row {
    /// Its id.
    pub run: StreamId,
    /// For a run that a browser app saved, the id from the app.
    pub app_id: Option<String>,
    /// Its tenant; a server lists a single tenant and leaves it out.
    pub tenant: Option<TenantId>,
    /// Its workflow.
    pub workflow: String,
    /// Its status.
    pub status: String,
    /// When it was created, if that is known.
    pub created_at: Option<Timestamp>,
    /// When it last changed, if that is known.
    pub updated_at: Option<Timestamp>,
    /// Whether it has ended.
    pub settled: bool,
    /// The number of its events, if it is known.
    pub events: Option<u64>,
    /// The run that started it.
    pub parent: Option<StreamId>,
    /// Its tags.
    pub tags: Vec<String>,
    /// The code of its error, or null.
    pub error: Value,
    /// Its wait, for people, where no node of it is at work.
    pub waits: Option<String>,
}

impl From<Listed> for Row {
    fn from(row: Listed) -> Self {
        if row.index.kind == StreamKind::Document {
            return Self::of_document(row);
        }
        Self {
            app_id: None,
            run: row.stream,
            tenant: Some(row.tenant),
            workflow: row.index.subject,
            status: row.index.status,
            created_at: Some(row.index.created_at),
            updated_at: Some(row.index.updated_at),
            settled: row.index.settled,
            events: Some(row.next_seq),
            parent: row.index.parent,
            tags: row.index.tags,
            error: row.index.summary["error"].clone(),
            waits: None,
        }
    }
}

impl Row {
    /// A run that a browser app saved.
    fn of_document(row: Listed) -> Self {
        let status = run_status(&row.index).to_owned();
        let parent = row.index.summary["parents"][0].as_str();
        let tags = row.index.tags.iter().filter(|tag| !is_mark(tag));
        Self {
            app_id: Some(documents::app_id(&row).to_owned()),
            settled: matches!(status.as_str(), "completed" | "failed" | "cancelled"),
            status,
            parent: parent.map(Into::into),
            tags: tags.cloned().collect(),
            error: Value::Null,
            waits: None,
            run: row.stream,
            tenant: Some(row.tenant),
            workflow: row.index.subject,
            created_at: Some(row.index.created_at),
            updated_at: Some(row.index.updated_at),
            events: Some(row.next_seq),
        }
    }

    /// A run in the list of a server.
    pub(super) fn from_doc(doc: &Value) -> Self {
        let word = |name: &str| doc[name].as_str().unwrap_or_default().to_owned();
        let time = |name: &str| doc[name].as_str().and_then(Timestamp::parse);
        let tags = doc["tags"].as_array().into_iter().flatten();
        Self {
            waits: None,
            run: word("runId").as_str().into(),
            app_id: doc["workbench"]["runId"].as_str().map(str::to_owned),
            tenant: None,
            workflow: word("workflowId"),
            status: word("status"),
            created_at: time("createdAt"),
            updated_at: time("updatedAt"),
            settled: doc["settled"] == Value::Bool(true),
            events: doc["events"].as_u64(),
            parent: doc["parentRunId"].as_str().map(Into::into),
            tags: tags
                .filter_map(|tag| tag.as_str().map(str::to_owned))
                .collect(),
            error: doc["error"]["code"].clone(),
        }
    }

    /// A snapshot in the list of a host that is not ours.
    pub(super) fn from_snapshot(doc: &Value) -> Self {
        let row = Self::from_doc(doc);
        let time = |name: &str| doc[name].as_str().and_then(Timestamp::parse);
        Self {
            created_at: time("startedAt"),
            updated_at: time("completedAt"),
            settled: matches!(row.status.as_str(), "completed" | "failed" | "cancelled"),
            ..row
        }
    }
}
