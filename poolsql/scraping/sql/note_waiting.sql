-- Write on a run for which hosts its tasks wait; nothing comes back when that is known already, or none keeps them.
UPDATE poolsql.runs
SET detail = waiting.told
FROM (
    SELECT string_agg(
        'waits: host ' || held.name || CASE
            WHEN held.stopped_at IS NOT NULL THEN ' is stopped' || coalesce(': ' || held.stop_reason, '')
            ELSE ' is paused until ' || to_char(held.paused_until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC'
                || coalesce(': ' || held.pause_reason, '')
        END,
        '; ' ORDER BY held.name
    ) AS told
    FROM poolsql.hosts AS held
    WHERE (held.stopped_at IS NOT NULL OR held.paused_until > clock_timestamp())
      AND held.name IN (
          SELECT tasks.host FROM poolsql.tasks WHERE tasks.run_id = %(run_id)s AND tasks.state = 'pending'
      )
) AS waiting
WHERE runs.id = %(run_id)s
  AND runs.ended_at IS NULL
  AND waiting.told IS NOT NULL
  AND runs.detail IS DISTINCT FROM waiting.told
RETURNING runs.detail
