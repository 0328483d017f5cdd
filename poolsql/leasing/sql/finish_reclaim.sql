-- End a reclaiming lease whose browser was proven stopped. Goes on as parts.py says (END).
WITH lease AS MATERIALIZED (
    SELECT leases.*, leases.reclaim_outcome AS said
    FROM poolsql.leases
    WHERE leases.id = %(lease_id)s AND leases.token = %(token)s AND leases.state = 'reclaiming'
    FOR UPDATE
),
visit_now AS MATERIALIZED (
    SELECT lease.id AS lease_id, lease.profile_id, lease.pool_id, lease.worker_id, lease.task,
        NULL::bigint AS task_id, lease.host, NULL::text AS url, NULL::int AS status, lease.said AS outcome,
        lease.reclaim_detail AS detail, lease.acquired_at AS started_at, NULL::bigint AS bytes,
        NULL::float8 AS retry_after, NULL::jsonb AS evidence
    FROM lease
    WHERE lease.said IS NOT NULL
),
closing AS MATERIALIZED (
    SELECT lease.id AS lease_id, lease.token, lease.profile_id, lease.pool_id, lease.worker_id,
        lease.browser_machine AS machine, lease.task, worst.host, worst.outcome, lease.reclaim_detail AS detail,
        'reaper' AS ended_by, lease.acquired_at, lease.browser_state = 'started' AS browser_started,
        %(stop_rung)s::text AS stop_rung, lease.visits + (lease.said IS NOT NULL)::int AS visits,
        NULL::float8 AS retry_after, true AS hold_wanted, NULL::text AS pause_because
    FROM lease
    CROSS JOIN LATERAL (
        SELECT candidate.outcome, candidate.host
        FROM (
            VALUES (lease.said, lease.host), (lease.worst_outcome, lease.worst_host), ('success', lease.host)
        ) AS candidate (outcome, host)
        JOIN poolsql.outcomes USING (outcome)
        ORDER BY outcomes.severity DESC
        LIMIT 1
    ) AS worst
),
