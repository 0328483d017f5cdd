-- What is left of cancelled runs ends with them: tasks that wait, and claimed ones that nobody has begun to visit. One
-- that is being visited ends with its visit, and is looked at again.
UPDATE poolsql.tasks
SET state = 'failed',
    outcome = 'cancelled',
    detail = 'its run was cancelled',
    claimed_until = NULL,
    changed_at = clock_timestamp()
FROM poolsql.runs
WHERE runs.id = tasks.run_id
  AND runs.state = 'cancelled'
  AND (tasks.state = 'pending' OR (tasks.state = 'running' AND (
      tasks.lease_id IS NULL
      OR EXISTS (SELECT FROM poolsql.attempts WHERE attempts.lease_id = tasks.lease_id)
  )))
RETURNING tasks.id
