-- Record one visit inside a live lease; its effects on the host are immediate. Goes on as parts.py says (VISIT). The
-- number of visits that the holder knows of makes a repeated report of the same visit harmless.
WITH lease AS MATERIALIZED (
    SELECT leases.*
    FROM poolsql.leases
    WHERE leases.id = %(lease_id)s AND leases.token = %(token)s AND leases.state = 'held'
      AND leases.visits = %(number)s
    FOR UPDATE
),
visit_now AS MATERIALIZED (
    SELECT lease.id AS lease_id, lease.profile_id, lease.pool_id, lease.worker_id,
        coalesce(%(task)s::text, lease.task) AS task, %(task_id)s::bigint AS task_id,
        coalesce(%(host)s::text, lease.host) AS host, %(url)s::text AS url, %(status)s::int AS status,
        %(outcome)s::text AS outcome, %(detail)s::text AS detail,
        clock_timestamp() - make_interval(secs => %(seconds)s::float8) AS started_at, %(bytes)s::bigint AS bytes,
        %(retry_after)s::float8 AS retry_after, %(evidence)s::jsonb AS evidence
    FROM lease
),
noted AS (
    UPDATE poolsql.leases
    SET visits = leases.visits + 1,
        (worst_outcome, worst_host) = (
            SELECT candidate.outcome, candidate.host
            FROM (
                VALUES (visit_now.outcome, visit_now.host), (leases.worst_outcome, leases.worst_host)
            ) AS candidate (outcome, host)
            JOIN poolsql.outcomes USING (outcome)
            ORDER BY outcomes.severity DESC
            LIMIT 1
        )
    FROM visit_now
    WHERE leases.id = visit_now.lease_id
    RETURNING leases.id
),
