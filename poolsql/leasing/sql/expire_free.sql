-- End expired leases, and those of workers known to be dead, whose browser was never started: nothing has to be
-- stopped. Among them those that were handed to a waiting checkout that did not answer. One batch; the locks skip what
-- anybody else is changing. Goes on in visit_effects.sql and close.sql.
WITH due AS MATERIALIZED (
    SELECT leases.id
    FROM poolsql.leases
    JOIN poolsql.profiles ON profiles.id = leases.profile_id
    WHERE leases.state = 'held'
      AND leases.browser_state = 'none'
      AND (leases.expires_at <= clock_timestamp() OR leases.worker_id = ANY (%(dead_workers)s::uuid[]))
    ORDER BY leases.id
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
),
lease AS MATERIALIZED (
    SELECT leases.*, why.said, CASE why.said
            WHEN 'not_claimed' THEN 'handed to a waiting checkout that did not answer'
            WHEN 'worker_lost' THEN 'its process is gone'
            WHEN 'deadline_exceeded' THEN 'held longer than max_lease'
            ELSE 'not renewed within its ttl'
        END AS detail
    -- Out of an array, which the planner takes for short: it takes a limit that it does not know for a tenth of all
    -- leases, and would read all profiles, several times for each batch.
    FROM unnest(ARRAY(SELECT due.id FROM due)) AS locked (id)
    JOIN poolsql.leases ON leases.id = locked.id
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN leases.unclaimed THEN 'not_claimed'
            WHEN leases.worker_id = ANY (%(dead_workers)s::uuid[]) THEN 'worker_lost'
            WHEN leases.deadline_at <= clock_timestamp() THEN 'deadline_exceeded'
            ELSE 'lease_expired'
        END AS said
    ) AS why
    -- Once more, for the version that was locked and not the older one of the snapshot.
    FOR UPDATE OF leases
),
visit_now AS MATERIALIZED (
    SELECT lease.id AS lease_id, lease.profile_id, lease.pool_id, lease.worker_id, lease.task,
        NULL::bigint AS task_id, lease.host, NULL::text AS url, NULL::int AS status, lease.said AS outcome,
        lease.detail, lease.acquired_at AS started_at, NULL::bigint AS bytes, NULL::float8 AS retry_after,
        NULL::jsonb AS evidence
    FROM lease
),
closing AS MATERIALIZED (
    SELECT lease.id AS lease_id, lease.token, lease.profile_id, lease.pool_id, lease.worker_id,
        NULL::text AS machine, lease.task, worst.host, worst.outcome, lease.detail, 'reaper' AS ended_by,
        lease.acquired_at, false AS browser_started, NULL::text AS stop_rung, lease.visits + 1 AS visits,
        NULL::float8 AS retry_after, true AS hold_wanted, NULL::text AS pause_because
    FROM lease
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
