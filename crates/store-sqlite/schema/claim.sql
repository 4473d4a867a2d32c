UPDATE streams AS s SET epoch = epoch + 1, holder = ?2, expires_at = ?4
WHERE name = ?1 AND (holder IS NULL OR holder = ?2 OR expires_at <= ?3)
  AND NOT EXISTS (SELECT 1 FROM streams AS o INDEXED BY streams_exclusive
    WHERE o.holder IS NOT NULL AND o.tenant = s.tenant
      AND o.concurrency_key = s.concurrency_key AND o.expires_at > ?3 AND o.id <> s.id)
RETURNING epoch
