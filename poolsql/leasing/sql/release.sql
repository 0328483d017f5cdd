-- End a live lease as its holder reports it. Goes on as parts.py says (END). A lease whose browser may
-- still run is not ended here: without a proven stop it becomes reclaiming (begin_reclaim.sql).
WITH lease AS MATERIALIZED (
    SELECT leases.*, coalesce(
        %(outcome)s::text, CASE WHEN leases.visits = 0 THEN 'success' END
    ) AS said
    FROM poolsql.leases
    WHERE leases.id = %(lease_id)s
      AND leases.token = %(token)s
      AND leases.state = 'held'
      AND (leases.browser_state = 'none' OR %(stop_rung)s::text IS NOT NULL)
    FOR UPDATE
),
visit_now AS MATERIALIZED (
    SELECT lease.id AS lease_id, lease.profile_id, lease.pool_id, lease.worker_id, lease.task,
        NULL::bigint AS task_id, coalesce(%(host)s::text, lease.host) AS host, NULL::text AS url,
        NULL::int AS status, lease.said AS outcome, %(detail)s::text AS detail, lease.acquired_at AS started_at,
        NULL::bigint AS bytes, %(retry_after)s::float8 AS retry_after, NULL::jsonb AS evidence
    FROM lease
    WHERE lease.said IS NOT NULL
),
closing AS MATERIALIZED (
    SELECT lease.id AS lease_id, lease.token, lease.profile_id, lease.pool_id, lease.worker_id,
        lease.browser_machine AS machine, lease.task, worst.host, worst.outcome, %(detail)s::text AS detail,
        'holder' AS ended_by, lease.acquired_at, lease.browser_state = 'started' AS browser_started,
        %(stop_rung)s::text AS stop_rung, lease.visits + (lease.said IS NOT NULL)::int AS visits,
        %(retry_after)s::float8 AS retry_after, %(hold)s::bool AS hold_wanted, %(pause_because)s::text AS pause_because
    FROM lease
    CROSS JOIN LATERAL (
        SELECT candidate.outcome, candidate.host
        FROM (
            VALUES (lease.said, coalesce(%(host)s::text, lease.host)), (lease.worst_outcome, lease.worst_host)
        ) AS candidate (outcome, host)
        JOIN poolsql.outcomes USING (outcome)
        ORDER BY outcomes.severity DESC
        LIMIT 1
    ) AS worst
),
