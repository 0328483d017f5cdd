-- What became of a lease: live, reclaiming, or ended. A wrong token is told apart, and tells nothing else.
SELECT CASE WHEN leases.token = %(token)s THEN leases.state ELSE 'foreign' END AS state, leases.visits,
    leases.browser_state, leases.reclaim_outcome AS outcome, NULL::text AS ended_by, NULL::bool AS counted,
    NULL::timestamptz AS available_at, NULL::text AS retired_because, leases.id AS lease_id
FROM poolsql.leases
WHERE leases.id = %(lease_id)s
UNION ALL
SELECT CASE WHEN attempts.token = %(token)s THEN 'ended' ELSE 'foreign' END, attempts.visits, NULL,
    attempts.outcome, attempts.ended_by, attempts.counted, attempts.available_at, attempts.retired_because,
    attempts.lease_id
FROM poolsql.attempts
WHERE attempts.lease_id = %(lease_id)s
