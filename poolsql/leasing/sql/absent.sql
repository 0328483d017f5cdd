-- Workers that hold leases and once held the lock that says that they live, but are not among those that do now. All
-- locks vanish when the server is started anew: until one ttl later a missing one says nothing.
SELECT DISTINCT workers.id AS worker_id
FROM poolsql.leases
JOIN poolsql.workers ON workers.id = leases.worker_id
WHERE leases.state = 'held'
  AND workers.present_at IS NOT NULL
  AND pg_postmaster_start_time() + leases.ttl < clock_timestamp()
  AND workers.lock_key <> ALL (%(present)s::bigint[])
