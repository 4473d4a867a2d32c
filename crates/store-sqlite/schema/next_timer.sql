-- The earliest timer of one priority.
SELECT wake FROM streams INDEXED BY streams_waiting
WHERE holder IS NULL AND wake IS NOT NULL AND queue = ?1 AND priority = ?2
  AND runnable = 0 AND wake > ?3 ORDER BY wake LIMIT 1
