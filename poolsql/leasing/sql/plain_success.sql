-- End a live lease after a success of which nothing follows but a count: no failure is to be forgiven or remembered, no
-- retirement is due, no operator has said a word about the profile. It does of release.sql what is left then, in half
-- the time, and leaves all other leases alone. Goes on in visited.sql, forgiven.sql and ended.sql.
WITH locked AS MATERIALIZED (
    SELECT leases.id AS lease_id, leases.token, leases.profile_id, leases.pool_id, leases.worker_id,
        leases.browser_machine AS machine, leases.task, coalesce(%(host)s::text, leases.host) AS host,
        outcomes.outcome, outcomes.blames, false AS counted, %(detail)s::text AS detail, 'holder' AS ended_by,
        leases.acquired_at, leases.browser_state = 'started' AS browser_started, %(stop_rung)s::text AS stop_rung,
        said.said, leases.visits + said.said::int AS visits,
        profiles.launcher_id, profiles.proxy_id, profiles.state, profiles.uses + 1 AS uses,
        0 AS failures, 0 AS crashes, 0 AS losses, 0 AS holds, NULL::timestamptz AS held_until,
        NULL::text AS retired_because, NULL::text AS pause_because, pools.rest
    FROM poolsql.leases
    JOIN poolsql.profiles ON profiles.id = leases.profile_id
    JOIN poolsql.pools ON pools.id = leases.pool_id
    JOIN poolsql.outcomes ON outcomes.outcome = 'success'
    -- A success is written as a visit of its own if it is said, or if nothing was before.
    CROSS JOIN LATERAL (SELECT %(outcome)s::text IS NOT NULL OR leases.visits = 0 AS said) AS said
    WHERE leases.id = %(lease_id)s
      AND leases.token = %(token)s
      AND leases.state = 'held'
      AND (leases.browser_state = 'none' OR %(stop_rung)s::text IS NOT NULL)
      AND coalesce(leases.worst_outcome, 'success') = 'success'
      AND profiles.state = 'active'
      AND profiles.hold_until IS NULL
      AND profiles.uses + 1 <> pools.retire_window
      AND coalesce(profiles.uses + 1 < pools.max_uses, true)
      AND coalesce(clock_timestamp() < profiles.judged_from + pools.max_age, true)
    FOR UPDATE OF leases, profiles
),
-- The time once the rows are locked: waiting for them may have taken long.
final AS MATERIALIZED (
    SELECT locked.*, moment.now, moment.now + locked.rest AS available_at,
        CASE WHEN locked.rest > interval '0' THEN 'rest' END AS waits_for
    FROM locked
    CROSS JOIN LATERAL (SELECT clock_timestamp() AS now OFFSET 0) AS moment
),
visit_now AS MATERIALIZED (
    SELECT final.lease_id, final.profile_id, final.pool_id, final.worker_id, final.task, NULL::bigint AS task_id,
        final.host, NULL::text AS url, NULL::int AS status, final.outcome, final.detail,
        final.acquired_at AS started_at, NULL::bigint AS bytes, NULL::float8 AS retry_after, NULL::jsonb AS evidence
    FROM final
    WHERE final.said
),
