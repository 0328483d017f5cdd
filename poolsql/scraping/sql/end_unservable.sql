-- A task that waits for one profile ends when that profile will not come by itself: it is retired, paused or new (I12).
UPDATE poolsql.tasks
SET state = 'failed', changed_at = clock_timestamp(),
    detail = coalesce(tasks.detail || '; ', '') || 'profile ' || profiles.key || ' is ' || profiles.state
FROM poolsql.profiles
WHERE tasks.run_id = %(run_id)s
  AND tasks.state = 'pending'
  AND profiles.id = tasks.profile_id
  AND profiles.state IN ('new', 'paused', 'retired')
RETURNING tasks.id
