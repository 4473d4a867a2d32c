INSERT INTO tombstones SELECT name, tenant, next_seq, chain, ?2, ?3
  FROM streams WHERE id = ?1
