-- The worker that claimed these tasks is alive: their claims go on. Only claims that nobody has taken over come back.
UPDATE poolsql.tasks
SET claimed_until = clock_timestamp() + make_interval(secs => %(seconds)s::float8)
FROM unnest(%(task_ids)s::bigint[], %(claims)s::timestamptz[]) AS claim (task_id, claimed_until)
WHERE tasks.id = claim.task_id
  AND tasks.state = 'running'
  AND tasks.claimed_until = claim.claimed_until
RETURNING tasks.id, tasks.claimed_until
