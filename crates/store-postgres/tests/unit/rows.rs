//! The plans of lists and counts. These tests see private parts of `src/rows.rs`.

use super::*;
use crate::{Address, Options, PostgresStore};

/// Runs of two tenants, each with runs of 20 workspaces.
const FILL: &str = "
  INSERT INTO runwright.streams (name, tenant, next_seq, chain, settled, runnable, queue, priority,
      created_at, updated_at, kind, workspace, subject, status, tags, index_row)
    SELECT 's' || n, 't' || n % 2, 1, '', true, false, 'default', 0, n, n, 'run', 'w' || n / 2 % 20,
      'order', CASE WHEN n % 7 = 0 THEN 'failed' ELSE 'completed' END, '{}', '{}'
    FROM generate_series(1, 40000) AS n;
  ANALYZE runwright.streams;";

#[tokio::test]
async fn lists_and_counts_of_a_workspace_read_its_rows() {
    let Some(url) = testkit::postgres::database() else {
        return;
    };
    let address = Address::parse(&url).expect("a URL");
    let store = PostgresStore::open(&address, Options::default()).await;
    drop(store.expect("the store opens"));
    testkit::postgres::sql(&url, FILL);
    let plan = |columns: &str, statuses: &[&str], end: &str| {
        let query = ListQuery {
            tenant: Some("t1".into()),
            workspace: Some("w1".into()),
            kind: Some(StreamKind::Run),
            statuses: statuses.iter().map(|&status| status.to_owned()).collect(),
            ..ListQuery::default()
        };
        let mut sql = sql(columns, &query, end);
        let statuses = format!("'{{{}}}'::text[]", statuses.join(","));
        for (place, value) in [
            ("$11", "0"),
            ("$10", "50"),
            ("$9", "'~'"),
            ("$8", "99999"),
            ("$7", &statuses),
            ("$6", "NULL"),
            ("$5", "NULL"),
            ("$4", "'run'"),
            ("$3", "'w1'"),
            ("$2", "'t1'"),
            ("$1", "NULL"),
        ] {
            sql = sql.replace(place, value);
        }
        testkit::postgres::sql(&url, &format!("SET enable_bitmapscan = off; EXPLAIN (COSTS OFF) {sql}"))
    };
    let newest = "ORDER BY created_at DESC, name DESC";
    for (plan, index) in [
        (plan("name", &[], newest), "streams_of_workspace "),
        (
            plan("name", &["failed"], newest),
            "streams_of_workspace_status ",
        ),
        (
            plan("status, count(*)", &[], "GROUP BY status"),
            "streams_of_workspace",
        ),
    ] {
        assert!(plan.contains(&format!(" {index}")), "{plan}");
        assert!(!plan.contains("Seq Scan"), "{plan}");
    }
}
