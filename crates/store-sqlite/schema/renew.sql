UPDATE streams AS s SET expires_at = ?4
WHERE name = ?1 AND epoch = ?2 AND holder IS NOT NULL AND (expires_at > ?3
  OR NOT EXISTS (SELECT 1 FROM streams AS o INDEXED BY streams_exclusive
    WHERE o.holder IS NOT NULL AND o.tenant = s.tenant
      AND o.concurrency_key = s.concurrency_key AND o.expires_at > ?3 AND o.id <> s.id))
