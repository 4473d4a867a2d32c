//! The plans of lists and counts. These tests see private parts of `src/rows.rs`.

use super::*;
use crate::options::Options;

/// How SQLite reads the rows of a query.
fn plan(db: &Db, (sql, params): (String, Vec<Value>)) -> String {
    let sql = format!("EXPLAIN QUERY PLAN {sql}");
    let steps = db.all(&sql, params_from_iter(params), |row| {
        Ok(row.get::<_, String>(3)?)
    });
    steps.expect("a plan").join("\n")
}

fn query(workspace: Option<&str>, statuses: &[&str]) -> ListQuery {
    ListQuery {
        tenant: Some("acme".into()),
        kind: Some(StreamKind::Run),
        workspace: workspace.map(str::to_owned),
        statuses: statuses.iter().map(|&status| status.to_owned()).collect(),
        limit: 50,
        ..ListQuery::default()
    }
}

#[test]
fn lists_and_counts_read_the_rows_of_their_owner_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = crate::open::writer(&folder.path().join("runs.db"), &Options::default());
    let db = db.expect("a store");
    let of_subject = ListQuery {
        subject: Some("order".to_owned()),
        ..query(None, &[])
    };
    for (query, list, count) in [
        (
            query(None, &[]),
            "COVERING INDEX listed_by_kind (tenant=? AND kind=?",
            "COVERING INDEX listed_by_status (tenant=? AND kind=?",
        ),
        (
            query(None, &["failed"]),
            "COVERING INDEX listed_by_status (tenant=? AND kind=? AND status=?",
            "COVERING INDEX listed_by_status (tenant=? AND kind=? AND status=?",
        ),
        (
            of_subject,
            "INDEX listed_by_subject (tenant=? AND kind=? AND subject=?",
            "listed_by_subject (tenant=? AND kind=? AND subject=?",
        ),
        (
            query(Some("red"), &[]),
            "COVERING INDEX listed_of_workspace (tenant=? AND workspace=? AND kind=?",
            "COVERING INDEX listed_of_workspace_by_status (tenant=? AND workspace=? AND kind=?",
        ),
        (
            query(Some("red"), &["failed"]),
            "INDEX listed_of_workspace_by_status (tenant=? AND workspace=? AND kind=? AND status=?",
            "INDEX listed_of_workspace_by_status (tenant=? AND workspace=? AND kind=? AND status=?",
        ),
    ] {
        let listed = plan(&db, list_sql(&query));
        assert!(listed.contains(list), "{listed}");
        assert!(!listed.contains("TEMP B-TREE"), "{listed}");
        let counted = plan(&db, count_sql(&query));
        assert!(counted.contains(count), "{counted}");
    }
}
