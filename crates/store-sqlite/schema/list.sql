SELECT name, tenant, next_seq, index_row FROM streams WHERE {owner}
  AND (?3 IS NULL OR index_row ->> 'workspace' = ?3)
  AND (?4 IS NULL OR index_row ->> 'kind' = ?4)
  AND (?5 IS NULL OR index_row ->> 'subject' = ?5)
  AND (?6 IS NULL OR ?6 IN (SELECT value FROM json_each(index_row, '$.tags')))
  AND (?7 = '[]' OR index_row ->> 'status' IN (SELECT value FROM json_each(?7)))
  AND (created_at, name) < (?8, ?9)
ORDER BY created_at DESC, name DESC LIMIT ?10
