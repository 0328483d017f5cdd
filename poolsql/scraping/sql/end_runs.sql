-- Runs that are over: none of their tasks waits or is worked on. Tasks of an open run only ever end, and a retry opens
-- a run again in the transaction that touches its tasks, so a snapshot in which nothing is left tells the truth of the
-- run's row that it saw: a row that was changed meanwhile (ctid) is left for the next round.
UPDATE poolsql.runs
SET state = CASE
        WHEN EXISTS (SELECT FROM poolsql.tasks WHERE tasks.run_id = runs.id AND tasks.state = 'done') THEN 'done'
        WHEN EXISTS (SELECT FROM poolsql.tasks WHERE tasks.run_id = runs.id) THEN 'failed'
        ELSE 'done'
    END,
    ended_at = clock_timestamp(),
    -- What it waited for is over; how its tasks ended stands with them.
    detail = NULL
FROM poolsql.runs AS seen
WHERE seen.id = runs.id
  AND seen.ctid = runs.ctid
  AND runs.ended_at IS NULL
  AND runs.state = 'running'
  AND (%(run_id)s::bigint IS NULL OR runs.id = %(run_id)s)
  AND NOT EXISTS (SELECT FROM poolsql.tasks WHERE tasks.run_id = runs.id AND tasks.state = 'pending')
  AND NOT EXISTS (SELECT FROM poolsql.tasks WHERE tasks.run_id = runs.id AND tasks.state = 'running')
RETURNING runs.id, runs.name, runs.state
