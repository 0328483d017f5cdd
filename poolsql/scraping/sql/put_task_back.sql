-- The claimed task was not visited after all: others may take it, at once or later; or it ends here.
UPDATE poolsql.tasks
SET state = %(task_state)s,
    outcome = coalesce(%(outcome)s, tasks.outcome),
    detail = coalesce(%(detail)s, tasks.detail),
    not_before = clock_timestamp() + make_interval(secs => %(delay)s::float8),
    tries = tasks.tries + %(tried)s::bool::int,
    claimed_until = NULL,
    changed_at = clock_timestamp()
WHERE tasks.id = %(task_id)s
  AND tasks.state = 'running'
  AND tasks.claimed_until = %(claimed_until)s
RETURNING tasks.id
