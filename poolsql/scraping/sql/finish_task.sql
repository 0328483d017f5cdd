-- The end of a visit's statement that writes the task's result too: both or none, and only under a live lease that
-- the task is attached to.
,
task AS (
    UPDATE poolsql.tasks
    SET state = %(task_state)s,
        outcome = visit_now.outcome,
        detail = visit_now.detail,
        result = %(result)s::jsonb,
        not_before = clock_timestamp() + make_interval(secs => %(delay)s::float8),
        profile_id = CASE WHEN %(same_profile)s THEN visit_now.profile_id ELSE tasks.profile_id END,
        visited_by = visit_now.profile_id,
        visited_seed = %(seed)s,
        lease_id = NULL,
        changed_at = clock_timestamp()
    FROM visit_now
    WHERE tasks.id = visit_now.task_id
      AND tasks.lease_id = visit_now.lease_id
      AND tasks.state = 'running'
    RETURNING tasks.id
)
SELECT visited.id AS visit_id, (SELECT id FROM task) AS task_id FROM visited
