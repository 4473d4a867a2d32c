//! The plans of the statements that a store with many runs repeats: each reads the rows it returns,
//! by one index, and sorts nothing.

use crate::bed::Database;

const CALLS: &str = include_str!("../../schema/0001_calls.sql");

/// Settled streams, and a few that wait in a queue, with their events.
const FILL: &str = "
  INSERT INTO runwright.streams (name, tenant, next_seq, chain, settled, runnable, queue, priority,
      created_at, updated_at, kind, subject, status, tags, index_row)
    SELECT 's' || n, 't' || n % 500, 2, '', n > 15400, n <= 15000, 'default', 0, n, n, 'run', 'w',
      CASE WHEN n > 15400 THEN 'completed' ELSE 'running' END, '{}', '{}'
    FROM generate_series(1, 20000) AS n;
  UPDATE runwright.streams SET timer = 1000 + id WHERE id BETWEEN 15001 AND 15400;
  UPDATE runwright.streams SET holder = 'h', expires_at = 2000 WHERE id BETWEEN 100 AND 150;
  INSERT INTO runwright.events
    SELECT 2 * s.id + n, s.id, n, NULL, '', ''
    FROM runwright.streams AS s, generate_series(0, 1) AS n;
  INSERT INTO runwright.blobs (tenant, digest, size, put_at, stored)
    SELECT 't', n::text::bytea, 0, 0, '' FROM generate_series(1, 5000) AS n;
  ANALYZE runwright.streams, runwright.events, runwright.blobs;";

/// The plan of a statement with these parameters.
fn plan(database: &Database, sql: &str, parameters: &[(&str, &str)]) -> String {
    let mut sql = sql.to_owned();
    for (name, value) in parameters {
        sql = sql.replace(name, value);
    }
    // As the functions of the schema set it for themselves. A small table is else read by bitmaps.
    database.sql(&format!(
        "SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off;
         SET cursor_tuple_fraction = 0.0001; EXPLAIN (COSTS OFF) {sql}"
    ))
}

/// The part of a function between two texts.
fn part(from: &str, to: &str) -> String {
    let (_, rest) = CALLS.split_once(from).expect("the function has this text");
    let (part, _) = rest.split_once(to).expect("the function has this text");
    part.to_owned()
}

#[track_caller]
fn check(plan: &str, indexes: &[&str]) {
    for index in indexes {
        assert!(
            plan.contains(&format!("using {index} ")),
            "{index}:\n{plan}"
        );
    }
    for slow in ["Seq Scan", "Bitmap Heap Scan"] {
        assert!(!plan.contains(slow), "{slow}:\n{plan}");
    }
}

#[tokio::test]
async fn hot_statements_read_by_their_indexes() {
    let Some(database) = Database::new() else {
        return;
    };
    database.store().await;
    database.sql(FILL);
    let of_due = [
        ("of_queue", "'default'"),
        ("<= t", "<= 1500"),
        ("> t", "> 1500"),
    ];
    let due = format!("DECLARE waiting {}", part("\n  waiting ", ";"));
    let due = plan(&database, &due, &of_due);
    check(&due, &["streams_runnable", "streams_timed", "streams_held"]);
    // The waiting streams are merged in their order; only the two short lists are sorted.
    assert!(due.starts_with("Merge Append"), "{due}");
    let next = part("INTO next_at FROM (", ") AS n(moment)");
    let next = format!("SELECT min(moment) FROM ({next}) AS n(moment)");
    let next = plan(&database, &next, &of_due);
    check(&next, &["streams_timed", "streams_held"]);
}
