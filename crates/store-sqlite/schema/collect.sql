DELETE FROM blobs WHERE id IN (
  SELECT id FROM blobs WHERE refs = 0 AND put_at <= ?1 LIMIT ?2)
