-- Who holds the lock that says that a worker lives, by its lock key. An unsigned number in pg_locks.
SELECT pg_locks.objid::bigint AS lock_key
FROM pg_locks
WHERE pg_locks.locktype = 'advisory'
  AND pg_locks.granted
  AND pg_locks.objsubid = 2
  AND pg_locks.classid::bigint = %(class)s::bigint
  AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
