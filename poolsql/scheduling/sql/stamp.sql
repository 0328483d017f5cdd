-- A loop came round, or failed again. Answers whether an operator wants this worker to take on nothing more.
INSERT INTO poolsql.loop_stamps AS stamp (worker_id, loop, machine, every, stamped_at, failing_since, note)
VALUES (
    %(worker_id)s, %(loop)s, %(machine)s, make_interval(secs => %(every)s::float8), clock_timestamp(),
    CASE WHEN %(note)s::text IS NOT NULL THEN clock_timestamp() END, %(note)s
)
ON CONFLICT (worker_id, loop) DO UPDATE
SET every = excluded.every,
    stamped_at = clock_timestamp(),
    failing_since = CASE WHEN excluded.note IS NOT NULL THEN coalesce(stamp.failing_since, clock_timestamp()) END,
    note = excluded.note
RETURNING EXISTS (
    SELECT FROM poolsql.workers WHERE workers.id = stamp.worker_id AND workers.draining_at IS NOT NULL
) AS draining
