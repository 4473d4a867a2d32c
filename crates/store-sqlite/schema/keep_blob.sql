INSERT INTO blobs (tenant, digest, size, put_at) VALUES (?1, ?2, ?3, ?4)
  ON CONFLICT DO UPDATE SET put_at = max(put_at, excluded.put_at) RETURNING id
