-- The tickets of a worker stay good for a while; and which of its requests have a lease that nobody has taken yet: a
-- notification can be lost with its connection, and a checkout that was tried again can still have succeeded.
WITH seen AS (
    UPDATE poolsql.workers SET waiting_seen_at = clock_timestamp() WHERE workers.id = %(worker_id)s
)
SELECT leases.request_id
FROM poolsql.leases
WHERE leases.worker_id = %(worker_id)s
  AND leases.state = 'held'
  AND (leases.unclaimed OR EXISTS (SELECT FROM poolsql.waiters WHERE waiters.request_id = leases.request_id))
