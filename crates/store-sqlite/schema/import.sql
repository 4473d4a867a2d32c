-- blobs
INSERT INTO blobs (tenant, digest, size, put_at) VALUES (?1, ?2, ?3, ?4);
INSERT INTO blob_bytes SELECT id, ?5 FROM blobs WHERE tenant = ?1 AND digest = ?2;
-- streams
INSERT INTO streams (name, tenant, next_seq, chain, epoch, holder, expires_at, settled, runnable,
    queue, priority, concurrency_key, parent, created_at, updated_at, index_row)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?9 ->> 'settled', ?9 ->> 'runnable', ?9 ->> 'queue',
    ?9 ->> 'priority', ?9 ->> 'concurrencyKey', ?9 ->> 'parent', ?9 ->> 'createdAt',
    ?9 ->> 'updatedAt', ?9);
INSERT INTO headers SELECT id, ?8 FROM streams WHERE name = ?1;
-- references
INSERT INTO blob_refs
  SELECT streams.id, blobs.id FROM streams
  JOIN json_each('["' || replace(?2, ',', '","') || '"]') AS listed
  JOIN blobs ON blobs.tenant = streams.tenant AND digest = unhex(listed.value)
  WHERE name = ?1;
-- checkpoints
INSERT INTO checkpoints SELECT id, ?2, ?3, ?4 FROM streams WHERE name = ?1;
-- timers
INSERT INTO timers SELECT id, ?2, ?3 FROM streams WHERE name = ?1;
-- events
INSERT INTO events SELECT ?1, id, ?3, ?4, ?5 FROM streams WHERE name = ?2;
-- keys
INSERT INTO keys VALUES (?1, ?2, ?3, (SELECT id FROM streams WHERE name = ?4), ?5, ?6, ?7);
-- outbox
INSERT INTO outbox (place, source, message, target, command)
  SELECT ?1, id, ?3, ?4, ?5 FROM streams WHERE name = ?2;
-- tombstones
INSERT INTO tombstones VALUES (?1, ?2, ?3, ?4, ?5, ?6);
-- counters
DELETE FROM sqlite_sequence WHERE name = 'outbox' AND ?1 = 'place';
INSERT INTO sqlite_sequence (name, seq) SELECT 'outbox', ?2 WHERE ?1 = 'place';
INSERT INTO events (position) SELECT ?2 WHERE ?1 = 'position'
  AND NOT EXISTS (SELECT 1 FROM events WHERE position >= ?2);
-- begin
CREATE TABLE imports (step INTEGER PRIMARY KEY, mark TEXT NOT NULL) STRICT;
INSERT INTO imports VALUES (0, '');
-- mark
INSERT INTO imports VALUES (?1, ?2);
-- finish
DROP TABLE imports;
