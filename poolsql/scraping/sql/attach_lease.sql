-- The claimed task is now worked on under this lease; nobody does when the claim had ended.
UPDATE poolsql.tasks
SET lease_id = %(lease_id)s, claimed_until = NULL, tries = tasks.tries + 1, changed_at = clock_timestamp()
WHERE tasks.id = %(task_id)s AND tasks.state = 'running' AND tasks.claimed_until = %(claimed_until)s
RETURNING tasks.id
