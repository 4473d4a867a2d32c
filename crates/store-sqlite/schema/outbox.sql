SELECT place, name, tenant, message, target, command
FROM outbox JOIN streams ON id = source ORDER BY place LIMIT ?1
