-- blobs
SELECT tenant, digest, size, put_at, stored FROM blobs JOIN blob_bytes ON blob = id
  WHERE (tenant, digest) > (?1, ?2) ORDER BY tenant, digest LIMIT ?3;
-- streams
SELECT name, tenant, next_seq, chain, epoch, holder, expires_at, header, index_row
  FROM streams CROSS JOIN headers ON stream = id WHERE name > ?1 ORDER BY name LIMIT ?2;
-- references
SELECT name, (SELECT group_concat(digest, ',') FROM (
    SELECT lower(hex(digest)) AS digest FROM blob_refs JOIN blobs ON id = blob
    WHERE stream = streams.id ORDER BY digest))
  FROM streams WHERE name > ?1 AND EXISTS (SELECT 1 FROM blob_refs WHERE stream = streams.id)
  ORDER BY name LIMIT ?2;
-- checkpoints
SELECT name, checkpoints.next_seq, checkpoints.chain, state
  FROM streams CROSS JOIN checkpoints ON stream = id WHERE name > ?1 ORDER BY name LIMIT ?2;
-- timers
SELECT streams.name, timers.name, due FROM streams CROSS JOIN timers ON stream = id
  WHERE streams.name >= ?1 AND (streams.name, timers.name) > (?1, ?2)
  ORDER BY streams.name, timers.name LIMIT ?3;
-- keys
SELECT keys.tenant, namespace, key, name, digest, answer, keys.expires_at
  FROM keys LEFT JOIN streams ON id = stream
  WHERE (keys.tenant, namespace, key) > (?1, ?2, ?3)
  ORDER BY keys.tenant, namespace, key LIMIT ?4;
-- outbox
SELECT place, name, message, target, command FROM outbox CROSS JOIN streams ON id = source
  WHERE place > ?1 ORDER BY place LIMIT ?2;
-- tombstones
SELECT name, tenant, next_seq, chain, reason, purged_at FROM tombstones
  WHERE name > ?1 ORDER BY name LIMIT ?2;
-- counters
SELECT name, value FROM (
    SELECT 'place' AS name, seq AS value FROM sqlite_sequence WHERE name = 'outbox'
    UNION ALL SELECT 'position', max(position) FROM events)
  WHERE value > 0 AND name > ?1 ORDER BY name LIMIT ?2;
-- unfinished
SELECT 1 FROM sqlite_schema WHERE name = 'imports';
-- mark
SELECT step, mark FROM imports ORDER BY step DESC LIMIT 1;
-- status
SELECT 'table', tbl_name, sum(pgsize), NULL, NULL FROM dbstat JOIN sqlite_schema USING (name)
  WHERE aggregate = TRUE GROUP BY tbl_name
UNION ALL SELECT 'streams', NULL, count(*), NULL, NULL FROM streams
UNION ALL SELECT 'events', NULL, sum(next_seq), NULL, NULL FROM streams
UNION ALL SELECT 'feed_end', NULL, max(position), NULL, NULL FROM events
UNION ALL SELECT 'outbox', NULL, count(*), (SELECT updated_at FROM outbox
  JOIN streams ON id = source ORDER BY place LIMIT 1), NULL FROM outbox
UNION ALL SELECT 'holder', holder, count(*), max(expires_at), NULL FROM streams
  WHERE holder IS NOT NULL AND expires_at > ?1 GROUP BY holder
UNION ALL SELECT 'servers', NULL, NULL, NULL, answer FROM keys
  WHERE namespace = 'runwright.servers' AND key = 'alive';
