-- Take one reclaiming lease whose browser this machine can stop. The claim is its next try's time: should this
-- process die while it stops the browser, another one tries again then. One that keeps failing waits longer each
-- time and never blocks the others.
WITH lease AS MATERIALIZED (
    SELECT leases.id
    FROM poolsql.leases
    WHERE leases.state = 'reclaiming'
      AND leases.reclaim_next_at <= clock_timestamp()
      AND (leases.browser_machine IS NULL OR leases.browser_machine = %(machine)s)
    ORDER BY leases.reclaim_next_at
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
UPDATE poolsql.leases
SET reclaim_tries = leases.reclaim_tries + 1,
    reclaim_next_at = clock_timestamp()
        + make_interval(secs => %(claim_seconds)s::float8) * power(2, least(5, leases.reclaim_tries))
FROM lease
WHERE leases.id = lease.id
RETURNING leases.id AS lease_id, leases.token,
    leases.browser || jsonb_build_object(
        'reclaiming_for', extract(epoch FROM clock_timestamp() - leases.reclaim_since)
    ) AS browser
