-- The tickets of a worker stay good for a while; and which of its requests were handed a lease that nobody has taken
-- yet, since a notification can be lost with its connection.
WITH seen AS (
    UPDATE poolsql.workers SET waiting_seen_at = clock_timestamp() WHERE workers.id = %(worker_id)s
)
SELECT leases.request_id
FROM poolsql.leases
WHERE leases.worker_id = %(worker_id)s AND leases.unclaimed AND leases.state = 'held'
