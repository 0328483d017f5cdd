-- The holder gives a lease up although its browser may still run: the reaper stops it first. What the holder had to
-- report is a recorded visit already.
UPDATE poolsql.leases
SET state = 'reclaiming',
    reclaim_since = clock_timestamp(),
    reclaim_detail = %(detail)s::text,
    reclaim_next_at = clock_timestamp()
WHERE leases.id = %(lease_id)s AND leases.token = %(token)s AND leases.state = 'held'
RETURNING leases.id AS lease_id
