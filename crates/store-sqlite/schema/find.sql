SELECT id, next_seq, CASE WHEN holder IS NULL THEN NULL ELSE epoch END,
  queue = ?2 AND priority = ?3 AND concurrency_key IS ?4 AND parent IS ?5
  AND created_at = ?6
  FROM streams WHERE name = ?1
