-- the log has a gap or another length than its stream says
SELECT s.name FROM runwright.streams AS s LEFT JOIN runwright.events AS e ON e.stream = s.id
  GROUP BY s.id HAVING count(e.seq) <> s.next_seq OR min(e.seq) <> 0 OR max(e.seq) <> s.next_seq - 1;
-- the header is missing
SELECT s.name FROM runwright.streams AS s
  WHERE NOT EXISTS (SELECT FROM runwright.headers AS h WHERE h.stream = s.id);
-- the earliest timer is not the one on record
SELECT s.name FROM runwright.streams AS s WHERE s.timer IS DISTINCT FROM
  (SELECT min(t.due) FROM runwright.timers AS t WHERE t.stream = s.id);
-- it is purged and still there
SELECT s.name FROM runwright.streams AS s JOIN runwright.tombstones USING (name);
-- events are left of a stream that is not there
SELECT NULL FROM runwright.events AS e
  WHERE NOT EXISTS (SELECT FROM runwright.streams AS s WHERE s.id = e.stream) GROUP BY e.stream;
-- an event has a position that was not given yet
SELECT NULL FROM runwright.events
  WHERE position > (SELECT last_value FROM runwright.positions) LIMIT 1;
-- a blob is referred to more or less often than it counts
SELECT NULL FROM runwright.blobs AS b
  WHERE b.refs <> (SELECT count(*) FROM runwright.blob_refs AS r WHERE r.blob = b.id);
-- an event has no blob for its content
SELECT NULL FROM runwright.events AS e WHERE e.blob IS NOT NULL
  AND NOT EXISTS (SELECT FROM runwright.blobs AS b WHERE b.id = e.blob);
