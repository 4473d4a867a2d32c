-- The earliest time at which a held stream of the queue, or a concurrency key, may become free.
SELECT min(at) FROM (
  SELECT CASE WHEN expires_at > ?2 THEN expires_at ELSE wake END AS at
  FROM streams INDEXED BY streams_held
  WHERE holder IS NOT NULL AND wake IS NOT NULL AND queue = ?1
    AND (expires_at > ?2 OR NOT runnable AND wake > ?2)
  UNION ALL SELECT expires_at FROM streams INDEXED BY streams_exclusive
  WHERE holder IS NOT NULL AND concurrency_key IS NOT NULL AND expires_at > ?2)
