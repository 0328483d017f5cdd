-- End a live lease after a success of which nothing follows but a count: no failure is to be forgotten, forgiven or
-- remembered, no retirement is due, no operator has said a word about the profile, and nobody waits for it. It does of
-- release.sql what is left then, in half the time, and leaves all other leases alone.
WITH locked AS MATERIALIZED (
    SELECT leases.id, leases.token, leases.profile_id, leases.pool_id, leases.worker_id, leases.browser_machine,
        leases.browser_state, leases.task, coalesce(%(host)s::text, leases.host) AS host, leases.acquired_at,
        leases.visits, profiles.launcher_id, profiles.proxy_id, pools.rest,
        -- A success is written as a visit of its own if it is said, or if nothing was before.
        %(outcome)s::text IS NOT NULL OR leases.visits = 0 AS said
    FROM poolsql.leases
    JOIN poolsql.profiles ON profiles.id = leases.profile_id
    JOIN poolsql.pools ON pools.id = leases.pool_id
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
      AND NOT EXISTS (SELECT FROM poolsql.waiters WHERE waiters.pool_id = leases.pool_id)
      AND NOT EXISTS (
          SELECT FROM poolsql.hosts
          WHERE hosts.name = coalesce(%(host)s::text, leases.host)
            AND hosts.blocks_in_a_row + hosts.limits_in_a_row + hosts.errors_in_a_row > 0
      )
      AND NOT EXISTS (
          SELECT FROM poolsql.cooldowns
          WHERE cooldowns.profile_id = leases.profile_id AND cooldowns.host = coalesce(%(host)s::text, leases.host)
      )
    FOR UPDATE OF leases, profiles
),
-- The time once the rows are locked: waiting for them may have taken long.
final AS MATERIALIZED (
    SELECT locked.*, moment.now, moment.now + locked.rest AS available_at
    FROM locked
    CROSS JOIN LATERAL (SELECT clock_timestamp() AS now OFFSET 0) AS moment
),
visited AS (
    INSERT INTO poolsql.visits (
        lease_id, profile_id, pool_id, launcher_id, proxy_id, worker_id, task, host, outcome, blames, detail,
        started_at, ended_at
    )
    SELECT id, profile_id, pool_id, launcher_id, proxy_id, worker_id, task, host, 'success', 'nobody',
        %(detail)s::text, acquired_at, now
    FROM final
    WHERE said
),
deleted AS (
    DELETE FROM poolsql.leases USING final WHERE leases.id = final.id
),
attempted AS (
    INSERT INTO poolsql.attempts (
        lease_id, token, profile_id, pool_id, launcher_id, proxy_id, worker_id, machine, task, host, outcome, blames,
        counted, detail, ended_by, started_at, ended_at, browser_started, stop_rung, visits, available_at
    )
    SELECT id, token, profile_id, pool_id, launcher_id, proxy_id, worker_id, browser_machine, task, host, 'success',
        'nobody', false, %(detail)s::text, 'holder', acquired_at, now, browser_state = 'started', %(stop_rung)s::text,
        visits + said::int, available_at
    FROM final
)
UPDATE poolsql.profiles
SET available_at = final.available_at,
    waits_for = CASE WHEN final.rest > interval '0' THEN 'rest' END,
    consecutive_failures = 0,
    consecutive_crashes = 0,
    consecutive_losses = 0,
    consecutive_holds = 0,
    uses = profiles.uses + 1,
    last_outcome = 'success',
    last_released_at = final.now,
    last_success_at = final.now,
    needs_person_since = NULL
FROM final
WHERE profiles.id = final.profile_id
RETURNING final.id AS lease_id, 'success' AS outcome, false AS counted, profiles.available_at,
    NULL::text AS retired_because
