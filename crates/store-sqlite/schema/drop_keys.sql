DELETE FROM keys WHERE rowid IN (
  SELECT rowid FROM keys WHERE expires_at <= ?1 LIMIT ?2)
