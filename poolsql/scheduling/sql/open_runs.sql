-- Runs that a daemon works on; those without a definition belong to programs of their own. And how many daemons there
-- are to share them.
SELECT runs.id, runs.name, runs.definition, pools.name AS pool,
    (
        SELECT count(*) FROM poolsql.loop_stamps
        WHERE loop_stamps.loop = 'work'
          AND loop_stamps.failing_since IS NULL
          AND loop_stamps.stamped_at > clock_timestamp() - interval '10 seconds'
    ) AS daemons
FROM poolsql.runs
JOIN poolsql.pools ON pools.id = runs.pool_id
WHERE runs.ended_at IS NULL
  AND runs.state = 'running'
  AND runs.definition IS NOT NULL
ORDER BY runs.id
