-- Workers that hold leases and once held the lock that says that they live, but do not now. All locks vanish when the
-- server is started anew: until one ttl later a missing one says nothing.
SELECT DISTINCT workers.id AS worker_id
FROM poolsql.leases
JOIN poolsql.workers ON workers.id = leases.worker_id
WHERE leases.state = 'held'
  AND workers.present_at IS NOT NULL
  AND pg_postmaster_start_time() + leases.ttl < clock_timestamp()
  -- An unsigned number in pg_locks.
  AND workers.lock_key::bigint NOT IN (
      SELECT pg_locks.objid::bigint
      FROM pg_locks
      WHERE pg_locks.locktype = 'advisory'
        AND pg_locks.granted
        AND pg_locks.objsubid = 2
        AND pg_locks.classid::bigint = %(class)s::bigint
        AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  )
