UPDATE events SET chain = NULL, content = NULL
  WHERE stream = ?1 AND seq >= ?2 AND seq < ?3
