UPDATE streams SET queue = ?9, priority = ?10, concurrency_key = ?11,
  parent = ?12, created_at = ?13 WHERE name = ?1 AND ?16 IS NULL
