SELECT name, digest, answer, keys.expires_at FROM keys LEFT JOIN streams ON id = stream
WHERE keys.tenant = ?1 AND namespace = ?2 AND key = ?3
  AND (keys.expires_at IS NULL OR keys.expires_at > ?4)
