-- Take expired leases, and those of workers known to be dead, away from their holders: from here on renewal and
-- release are refused, while the profile waits for its browser to be stopped. One batch.
WITH lease AS MATERIALIZED (
    SELECT leases.id, CASE
        WHEN leases.worker_id = ANY (%(dead_workers)s::uuid[]) THEN 'worker_lost'
        WHEN leases.deadline_at <= clock_timestamp() THEN 'deadline_exceeded'
        ELSE 'lease_expired'
    END AS said
    FROM poolsql.leases
    WHERE leases.state = 'held'
      AND leases.browser_state = 'started'
      AND (leases.expires_at <= clock_timestamp() OR leases.worker_id = ANY (%(dead_workers)s::uuid[]))
    ORDER BY leases.id
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
)
UPDATE poolsql.leases
SET state = 'reclaiming',
    reclaim_since = clock_timestamp(),
    reclaim_outcome = lease.said,
    reclaim_detail = CASE lease.said
        WHEN 'worker_lost' THEN 'its process is gone'
        WHEN 'deadline_exceeded' THEN 'held longer than max_lease'
        ELSE 'not renewed within its ttl'
    END,
    reclaim_next_at = clock_timestamp()
FROM lease
WHERE leases.id = lease.id
RETURNING leases.id AS lease_id, lease.said AS outcome
