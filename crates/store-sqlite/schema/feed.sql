SELECT position, name, tenant, seq, events.chain, content, id FROM events
CROSS JOIN streams ON id = stream WHERE position > ?1 ORDER BY position LIMIT ?2
