SELECT 1 FROM streams INDEXED BY streams_exclusive WHERE holder IS NOT NULL
  AND tenant = ?1 AND concurrency_key = ?2 AND expires_at > ?3
