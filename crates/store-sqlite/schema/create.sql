INSERT INTO streams (name, tenant, next_seq, chain, settled, runnable,
  updated_at, index_row, queue, priority, concurrency_key, parent, created_at, epoch, holder,
  expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
