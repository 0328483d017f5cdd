-- The very end of all statements that end leases. Expects final: what becomes of each lease and its profile; and
-- visit_now: the visits that it writes.
,
deleted AS (
    DELETE FROM poolsql.leases USING final WHERE leases.id = final.lease_id RETURNING leases.profile_id
),
-- A profile that is free at once goes straight to the first in the line that it can serve, if there is one that is
-- told of it. Not to one whose site has just cooled or paused it: those rows are not visible yet. Statements that end
-- many leases leave that to those who wait (served.sql): no ticket may be served twice.
called AS MATERIALIZED (
    SELECT final.profile_id, final.pool_id, final.now, pools.ttl, pools.max_lease, ticket.*
    FROM final
    JOIN poolsql.profiles ON profiles.id = final.profile_id
    JOIN poolsql.pools ON pools.id = final.pool_id
    JOIN poolsql.launchers ON launchers.id = final.launcher_id
    CROSS JOIN LATERAL (
        SELECT waiters.id, waiters.request_id, waiters.worker_id, waiters.task, waiters.host
        FROM poolsql.waiters
        WHERE waiters.pool_id = final.pool_id
          -- One expression, which the planner can't take for rare: it would look at all tickets and sort what is left,
          -- instead of going along the line until one passes.
          AND nullif(
              waiters.listens
              AND waiters.gives_up_at > final.now
              AND profiles.tags @> waiters.tags
              AND NOT profiles.tags && waiters.without_tags
              AND (waiters.profile_id IS NULL OR waiters.profile_id = final.profile_id)
              AND (profiles.machine IS NULL OR profiles.machine = waiters.machine)
              AND (launchers.machines IS NULL OR waiters.machine = ANY (launchers.machines))
              AND (
                  SELECT workers.waiting_seen_at > final.now - %(ticket_life)s::interval
                  FROM poolsql.workers
                  WHERE workers.id = waiters.worker_id
              )
              -- A try that was lost on its way may have leased meanwhile: its worker will find that.
              AND (SELECT count(*) = 0 FROM poolsql.leases WHERE leases.request_id = waiters.request_id)
              AND (waiters.host IS NULL OR (
                  waiters.host NOT IN (
                      SELECT visit.host
                      FROM visit_now AS visit
                      JOIN poolsql.outcomes ON outcomes.outcome = visit.outcome
                      WHERE visit.host IS NOT NULL
                        AND (outcomes.host_effect IN ('back_off', 'rate_pause', 'block_pause')
                             OR outcomes.profile_effect IN ('cooldown', 'pause_of_host'))
                  )
                  AND coalesce((
                      SELECT hosts.stopped_at IS NULL AND coalesce(hosts.paused_until <= final.now, true)
                      FROM poolsql.hosts
                      WHERE hosts.name = waiters.host
                  ), true)
                  AND coalesce((
                      SELECT cooldowns.until <= final.now
                      FROM poolsql.cooldowns
                      WHERE cooldowns.profile_id = final.profile_id AND cooldowns.host = waiters.host
                  ), true)
              )),
              false
          ) IS NOT NULL
        ORDER BY waiters.rank, waiters.id
        LIMIT 1
        FOR UPDATE OF waiters SKIP LOCKED
    ) AS ticket
    WHERE final.available_at <= final.now
      AND final.state = 'active'
      AND final.retired_because IS NULL
      AND final.pause_because IS NULL
      AND pools.paused_at IS NULL
      AND (launchers.breaker_open_until IS NULL OR launchers.breaker_open_until <= final.now)
      AND (SELECT count(*) FROM final) = 1
),
handed AS (
    INSERT INTO poolsql.leases (
        token, request_id, profile_id, pool_id, worker_id, task, host, ttl, acquired_at, expires_at, deadline_at,
        unclaimed
    )
    SELECT gen_random_uuid(), called.request_id, called.profile_id, called.pool_id, called.worker_id, called.task,
        called.host, called.ttl, called.now, called.now + least(called.ttl, %(claim_ttl)s::interval),
        called.now + called.max_lease, true
    FROM called
    -- Not before the lease that ends is gone: a profile has one at most.
    JOIN deleted ON deleted.profile_id = called.profile_id
    -- Nothing that a waiter does may make somebody else's release fail.
    ON CONFLICT (request_id) DO NOTHING
    RETURNING request_id, profile_id
),
gone AS (
    DELETE FROM poolsql.waiters USING handed WHERE waiters.request_id = handed.request_id
),
attempted AS (
    INSERT INTO poolsql.attempts (
        lease_id, token, profile_id, pool_id, launcher_id, proxy_id, worker_id, machine, task, host, outcome, blames,
        counted, detail, ended_by, started_at, ended_at, browser_started, stop_rung, visits, available_at,
        retired_because
    )
    SELECT lease_id, token, profile_id, pool_id, launcher_id, proxy_id, worker_id, machine, task, host, outcome,
        blames, counted, detail, ended_by, acquired_at, now, browser_started, stop_rung, visits, available_at,
        retired_because
    FROM final
),
freed AS (
    UPDATE poolsql.profiles
    SET available_at = CASE WHEN handed.profile_id IS NULL THEN final.available_at END,
        waits_for = CASE
            WHEN final.available_at <= final.now THEN NULL
            WHEN final.held_until >= final.available_at THEN 'hold'
            ELSE final.waits_for
        END,
        hold_until = CASE WHEN final.held_until > final.now THEN final.held_until END,
        consecutive_failures = final.failures,
        consecutive_crashes = final.crashes,
        consecutive_losses = final.losses,
        consecutive_holds = final.holds,
        uses = final.uses,
        last_outcome = final.outcome,
        last_released_at = final.now,
        last_success_at = CASE WHEN final.outcome = 'success' THEN final.now ELSE profiles.last_success_at END,
        needs_person_since = CASE
            WHEN final.outcome = 'session_lost' THEN coalesce(profiles.needs_person_since, final.now)
            WHEN final.outcome = 'success' THEN NULL
            ELSE profiles.needs_person_since
        END,
        state = CASE
            WHEN final.retired_because IS NOT NULL THEN 'retired'
            WHEN final.pause_because IS NOT NULL AND final.state = 'active' THEN 'paused'
            ELSE profiles.state
        END,
        state_reason = coalesce(
            final.retired_because,
            CASE WHEN final.state = 'active' THEN final.pause_because END,
            profiles.state_reason
        ),
        state_changed_at = CASE
            WHEN final.retired_because IS NOT NULL OR (final.pause_because IS NOT NULL AND final.state = 'active')
            THEN final.now ELSE profiles.state_changed_at
        END,
        state_changed_by = CASE
            WHEN final.retired_because IS NOT NULL OR (final.pause_because IS NOT NULL AND final.state = 'active')
            THEN 'poolsql' ELSE profiles.state_changed_by
        END
    FROM final
    LEFT JOIN handed ON handed.profile_id = final.profile_id
    WHERE profiles.id = final.profile_id
)
SELECT lease_id, outcome, counted, available_at, retired_because,
    (
        SELECT pg_notify('poolsql_' || workers.lock_key, called.request_id::text)
        FROM called
        JOIN poolsql.workers ON workers.id = called.worker_id
    )::text AS told
FROM final
