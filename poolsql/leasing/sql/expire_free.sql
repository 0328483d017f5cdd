-- End expired leases, and those of workers known to be dead, whose browser was never started: nothing has to be
-- stopped. Among them those that were handed to a waiting checkout that did not answer. One batch; the locks skip what
-- anybody else is changing. Goes on as parts.py says (END).
WITH lease AS MATERIALIZED (
    SELECT leases.*, CASE
        WHEN leases.unclaimed THEN 'not_claimed'
        WHEN leases.worker_id = ANY (%(dead_workers)s::uuid[]) THEN 'worker_lost'
        WHEN leases.deadline_at <= clock_timestamp() THEN 'deadline_exceeded'
        ELSE 'lease_expired'
    END AS said
    FROM poolsql.leases
    JOIN poolsql.profiles ON profiles.id = leases.profile_id
    WHERE leases.state = 'held'
      AND leases.browser_state = 'none'
      AND (leases.expires_at <= clock_timestamp() OR leases.worker_id = ANY (%(dead_workers)s::uuid[]))
    ORDER BY leases.id
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
),
visit_now AS MATERIALIZED (
    SELECT lease.id AS lease_id, lease.profile_id, lease.pool_id, lease.worker_id, lease.task,
        NULL::bigint AS task_id, lease.host, NULL::text AS url, NULL::int AS status, lease.said AS outcome,
        CASE lease.said
            WHEN 'not_claimed' THEN 'handed to a waiting checkout that did not answer'
            WHEN 'worker_lost' THEN 'its process is gone'
            WHEN 'deadline_exceeded' THEN 'held longer than max_lease'
            ELSE 'not renewed within its ttl'
        END AS detail, lease.acquired_at AS started_at, NULL::bigint AS bytes, NULL::float8 AS retry_after,
        NULL::jsonb AS evidence
    FROM lease
),
closing AS MATERIALIZED (
    SELECT lease.id AS lease_id, lease.token, lease.profile_id, lease.pool_id, lease.worker_id,
        NULL::text AS machine, lease.task, worst.host, worst.outcome, visit_now.detail, 'reaper' AS ended_by,
        lease.acquired_at, false AS browser_started, NULL::text AS stop_rung, lease.visits + 1 AS visits,
        NULL::float8 AS retry_after, true AS hold_wanted, NULL::text AS pause_because
    FROM lease
    JOIN visit_now ON visit_now.lease_id = lease.id
    CROSS JOIN LATERAL (
        SELECT candidate.outcome, candidate.host
        FROM (
            VALUES (lease.said, lease.host), (lease.worst_outcome, lease.worst_host)
        ) AS candidate (outcome, host)
        JOIN poolsql.outcomes USING (outcome)
        ORDER BY outcomes.severity DESC
        LIMIT 1
    ) AS worst
),
