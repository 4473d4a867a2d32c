-- The due streams of one priority, the longest waiting first: queue, priority, now. Three ordered
-- ranges are merged row by row, so that a full answer ends the scan.
SELECT name, tenant, concurrency_key, wake FROM streams INDEXED BY streams_waiting
WHERE holder IS NULL AND wake IS NOT NULL AND queue = ?1 AND priority = ?2 AND runnable = 1
UNION ALL
SELECT name, tenant, concurrency_key, wake FROM streams INDEXED BY streams_waiting
WHERE holder IS NULL AND wake IS NOT NULL AND queue = ?1 AND priority = ?2
  AND runnable = 0 AND wake <= ?3
UNION ALL
SELECT name, tenant, concurrency_key, wake FROM streams INDEXED BY streams_held
WHERE holder IS NOT NULL AND wake IS NOT NULL AND queue = ?1 AND priority = ?2
  AND expires_at <= ?3 AND (runnable OR wake <= ?3)
ORDER BY wake, name
