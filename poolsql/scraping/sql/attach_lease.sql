-- The claimed task is now worked on under this lease; nobody does when the claim had ended. Repeated after a lost
-- answer it says the same and counts one try.
UPDATE poolsql.tasks
SET lease_id = %(lease_id)s,
    claimed_until = NULL,
    tries = tasks.tries + (tasks.lease_id IS DISTINCT FROM %(lease_id)s)::int,
    changed_at = clock_timestamp()
WHERE tasks.id = %(task_id)s
  AND tasks.state = 'running'
  AND (tasks.claimed_until = %(claimed_until)s OR tasks.lease_id = %(lease_id)s)
RETURNING tasks.id
