-- Stamps of daemons that have signed off, or are long dead.
DELETE FROM poolsql.loop_stamps
USING poolsql.workers
WHERE workers.id = loop_stamps.worker_id
  AND (workers.ended_at IS NOT NULL OR loop_stamps.stamped_at < clock_timestamp() - interval '1 day')
RETURNING loop_stamps.loop
