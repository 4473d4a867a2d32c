UPDATE streams SET next_seq = ?3, chain = ?4, settled = ?5, runnable = ?6,
  updated_at = ?7, index_row = ?8 WHERE name = ?1 AND ?16 IS NULL
