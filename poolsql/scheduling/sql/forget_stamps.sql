-- Stamps of daemons that have signed off (their rows may be forgotten before), or are long dead.
DELETE FROM poolsql.loop_stamps
WHERE loop_stamps.stamped_at < clock_timestamp() - interval '1 day'
   OR NOT EXISTS (
       SELECT FROM poolsql.workers WHERE workers.id = loop_stamps.worker_id AND workers.ended_at IS NULL
   )
RETURNING loop_stamps.loop
