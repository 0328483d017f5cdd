-- Runs that a daemon works on; those without a definition belong to programs of their own.
SELECT runs.id, runs.name, runs.definition, pools.name AS pool
FROM poolsql.runs
JOIN poolsql.pools ON pools.id = runs.pool_id
WHERE runs.ended_at IS NULL
  AND runs.state = 'running'
  AND runs.definition IS NOT NULL
ORDER BY runs.id
