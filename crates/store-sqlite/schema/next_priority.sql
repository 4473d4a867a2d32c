SELECT max(priority) FROM (
  SELECT * FROM (SELECT priority FROM streams INDEXED BY streams_waiting
    WHERE holder IS NULL AND wake IS NOT NULL AND queue = ?1 AND priority < ?2
    ORDER BY priority DESC LIMIT 1)
  UNION ALL SELECT max(priority) FROM streams INDEXED BY streams_held
    WHERE holder IS NOT NULL AND wake IS NOT NULL AND queue = ?1 AND priority < ?2)
