-- blobs
SELECT tenant, digest, size, put_at, stored FROM runwright.blobs
  WHERE (tenant, digest) > ($1, $2) ORDER BY tenant, digest LIMIT $3;
-- streams
SELECT s.name, s.tenant, s.next_seq, s.chain, s.epoch, s.holder, s.expires_at, h.header, s.index_row
  FROM runwright.streams AS s JOIN runwright.headers AS h ON h.stream = s.id
  WHERE s.name > $1 ORDER BY s.name LIMIT $2;
-- references
SELECT s.name, (SELECT string_agg(encode(b.digest, 'hex'), ',' ORDER BY b.digest)
    FROM runwright.blob_refs AS r JOIN runwright.blobs AS b ON b.id = r.blob WHERE r.stream = s.id)
  FROM runwright.streams AS s
  WHERE s.name > $1 AND EXISTS (SELECT FROM runwright.blob_refs AS r WHERE r.stream = s.id)
  ORDER BY s.name LIMIT $2;
-- checkpoints
SELECT s.name, c.next_seq, c.chain, c.state
  FROM runwright.streams AS s JOIN runwright.checkpoints AS c ON c.stream = s.id
  WHERE s.name > $1 ORDER BY s.name LIMIT $2;
-- timers
SELECT s.name, t.name, t.due
  FROM runwright.streams AS s JOIN runwright.timers AS t ON t.stream = s.id
  WHERE s.name >= $1 AND (s.name, t.name) > ($1, $2) ORDER BY s.name, t.name LIMIT $3;
-- events
SELECT e.position, s.name, e.seq, e.chain, e.content
  FROM runwright.events AS e JOIN runwright.streams AS s ON s.id = e.stream
  WHERE e.position > $1 ORDER BY e.position LIMIT $2;
-- keys
SELECT k.tenant, k.namespace, k.key, s.name, k.digest, k.answer, k.expires_at
  FROM runwright.keys AS k LEFT JOIN runwright.streams AS s ON s.id = k.stream
  WHERE (k.tenant, k.namespace, k.key) > ($1, $2, $3)
  ORDER BY k.tenant, k.namespace, k.key LIMIT $4;
-- outbox
SELECT o.place, s.name, o.message, o.target, o.command
  FROM runwright.outbox AS o JOIN runwright.streams AS s ON s.id = o.source
  WHERE o.place > $1 ORDER BY o.place LIMIT $2;
-- tombstones
SELECT name, tenant, next_seq, chain, reason, purged_at FROM runwright.tombstones
  WHERE name > $1 ORDER BY name LIMIT $2;
-- counters
SELECT name, value FROM (
    SELECT 'place' AS name, last_value AS value FROM runwright.outbox_place_seq WHERE is_called
    UNION ALL SELECT 'position', last_value FROM runwright.positions WHERE is_called) AS c
  WHERE name COLLATE "C" > $1 ORDER BY name COLLATE "C" LIMIT $2;
-- unfinished
SELECT 1::bigint WHERE to_regclass('runwright.imports') IS NOT NULL;
-- mark
SELECT step, mark FROM runwright.imports ORDER BY step DESC LIMIT 1;
-- status
SELECT 'table', relname::text, pg_total_relation_size(oid), NULL::bigint, NULL::bytea
  FROM pg_class WHERE relnamespace = 'runwright'::regnamespace AND relkind = 'r'
UNION ALL SELECT 'streams', NULL, count(*), NULL, NULL FROM runwright.streams
UNION ALL SELECT 'events', NULL, sum(next_seq)::bigint, NULL, NULL FROM runwright.streams
UNION ALL SELECT 'feed_end', NULL, max(position), NULL, NULL FROM runwright.events
UNION ALL SELECT 'feed_waiting', NULL, count(*), NULL, NULL FROM pg_locks
  WHERE locktype = 'advisory' AND classid = 1381446468 AND objid = 1 AND NOT granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
UNION ALL SELECT 'snapshot', NULL,
    (extract(epoch FROM clock_timestamp() - min(xact_start)) * 1000)::bigint, NULL, NULL
  FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
  HAVING min(xact_start) IS NOT NULL
UNION ALL SELECT 'outbox', NULL, count(*), (SELECT s.updated_at FROM runwright.outbox AS o
  JOIN runwright.streams AS s ON s.id = o.source ORDER BY o.place LIMIT 1), NULL
  FROM runwright.outbox
UNION ALL SELECT 'holder', holder, count(*), max(expires_at), NULL FROM runwright.streams
  WHERE holder IS NOT NULL AND expires_at > $1 GROUP BY holder
UNION ALL SELECT 'servers', NULL, NULL, NULL, answer FROM runwright.keys
  WHERE namespace = 'runwright.servers' AND key = 'alive';
