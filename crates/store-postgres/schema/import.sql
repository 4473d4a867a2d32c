-- blobs
INSERT INTO runwright.blobs (tenant, digest, size, put_at, stored) SELECT n.* FROM $rows;
-- streams
INSERT INTO runwright.streams (name, tenant, next_seq, chain, epoch, holder, expires_at, settled,
    runnable, queue, priority, concurrency_key, parent, created_at, updated_at, kind, workspace,
    subject, status, tags, index_row)
  SELECT n.name, n.tenant, n.next_seq, n.chain, n.epoch, n.holder, n.expires_at, n.settled = 1,
    n.runnable = 1, n.queue, n.priority, n.concurrency_key, n.parent, n.created_at, n.updated_at,
    n.kind, n.workspace, n.subject, n.status, ARRAY(SELECT json_array_elements_text(n.tags::json)),
    n.index_row FROM $rows;
INSERT INTO runwright.headers
  SELECT s.id, n.header FROM $rows JOIN runwright.streams AS s ON s.name = n.name;
-- references
WITH counted AS (
  INSERT INTO runwright.blob_refs
    SELECT s.id, b.id FROM $rows JOIN runwright.streams AS s ON s.name = n.stream
    CROSS JOIN unnest(string_to_array(n.digests, ',')) AS listed(digest)
    JOIN runwright.blobs AS b ON b.tenant = s.tenant AND b.digest = decode(listed.digest, 'hex')
  RETURNING blob)
UPDATE runwright.blobs AS b SET refs = b.refs + c.times
  FROM (SELECT blob, count(*) AS times FROM counted GROUP BY blob) AS c WHERE b.id = c.blob;
-- checkpoints
INSERT INTO runwright.checkpoints SELECT s.id, n.next_seq, n.chain, n.state
  FROM $rows JOIN runwright.streams AS s ON s.name = n.stream;
-- timers
INSERT INTO runwright.timers SELECT s.id, n.name, n.due
  FROM $rows JOIN runwright.streams AS s ON s.name = n.stream;
UPDATE runwright.streams AS s
  SET timer = (SELECT min(t.due) FROM runwright.timers AS t WHERE t.stream = s.id)
  WHERE s.name IN (SELECT n.stream FROM $rows);
-- events
INSERT INTO runwright.events (position, stream, seq, blob, chain, content)
  SELECT n.position, s.id, n.seq, b.id, n.chain, n.content
  FROM $rows JOIN runwright.streams AS s ON s.name = n.stream
  LEFT JOIN runwright.blobs AS b ON b.tenant = s.tenant AND get_byte(n.content, 0) = 2
    AND b.digest = substring(n.content FROM 3 FOR 32);
-- keys
INSERT INTO runwright.keys
  SELECT n.tenant, n.namespace, n.key, s.id, n.digest, n.answer, n.expires_at
  FROM $rows LEFT JOIN runwright.streams AS s ON s.name = n.stream;
-- outbox
INSERT INTO runwright.outbox (place, source, message, target, command) OVERRIDING SYSTEM VALUE
  SELECT n.place, s.id, n.message, n.target, n.command
  FROM $rows JOIN runwright.streams AS s ON s.name = n.source;
-- tombstones
INSERT INTO runwright.tombstones SELECT n.* FROM $rows;
-- counters
SELECT setval(CASE n.name WHEN 'place' THEN 'runwright.outbox_place_seq'::regclass
  ELSE 'runwright.positions'::regclass END, n.value) FROM $rows;
-- begin
CREATE TABLE runwright.imports AS SELECT 0::bigint AS step, ''::text AS mark;
ALTER TABLE runwright.imports ADD PRIMARY KEY (step);
-- mark
INSERT INTO runwright.imports SELECT n.* FROM $rows;
-- finish
DROP TABLE runwright.imports;
