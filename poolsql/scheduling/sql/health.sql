-- The loops of the daemons that have not signed off, by the database's clock.
SELECT loop_stamps.worker_id, loop_stamps.machine, workers.pid, workers.process_started,
    loop_stamps.loop, loop_stamps.note,
    extract(epoch FROM loop_stamps.every)::float8 AS every,
    extract(epoch FROM clock_timestamp() - loop_stamps.stamped_at)::float8 AS age,
    extract(epoch FROM clock_timestamp() - loop_stamps.failing_since)::float8 AS failing
FROM poolsql.loop_stamps
JOIN poolsql.workers ON workers.id = loop_stamps.worker_id
WHERE workers.ended_at IS NULL
  AND (%(machine)s::text IS NULL OR loop_stamps.machine = %(machine)s)
ORDER BY loop_stamps.machine, loop_stamps.worker_id, loop_stamps.loop
