-- The shared end of all statements that end leases. Expects closing, whose leases are locked: it deletes the lease,
-- writes its one attempt, and sets cooldown, hold or retirement in the same statement, so that there is no moment
-- in which a failing profile is free (I4).
,
judged AS MATERIALIZED (
    SELECT closing.*, outcomes.blames, outcomes.counts, outcomes.profile_effect,
        profiles.launcher_id, profiles.proxy_id, profiles.state, profiles.hold_until, profiles.judged_from,
        profiles.consecutive_failures,
        -- A lease that nobody took has used nothing, and interrupts nothing that happened in a row.
        profiles.uses + (closing.outcome <> 'not_claimed')::int AS uses,
        CASE WHEN closing.outcome = 'browser_crashed' THEN profiles.consecutive_crashes + 1
             WHEN closing.outcome = 'not_claimed' THEN profiles.consecutive_crashes ELSE 0 END AS crashes,
        CASE WHEN outcomes.profile_effect = 'lost' AND closing.browser_started THEN profiles.consecutive_losses + 1
             WHEN closing.outcome = 'not_claimed' THEN profiles.consecutive_losses ELSE 0 END AS losses,
        CASE WHEN outcomes.profile_effect = 'hold' AND closing.hold_wanted THEN profiles.consecutive_holds + 1
             WHEN closing.outcome = 'not_claimed' THEN profiles.consecutive_holds ELSE 0 END AS holds
    FROM closing
    JOIN poolsql.outcomes ON outcomes.outcome = closing.outcome
    JOIN poolsql.profiles ON profiles.id = closing.profile_id
    FOR UPDATE OF profiles
),
counted AS MATERIALIZED (
    SELECT judged.*,
        judged.counts = 'always'
        OR (judged.counts = 'every_third' AND greatest(judged.crashes, judged.losses) > 0
            AND greatest(judged.crashes, judged.losses) %% 3 = 0) AS counted
    FROM judged
),
timed AS MATERIALIZED (
    SELECT counted.*, score.failures, clock_timestamp() AS now,
        CASE
            WHEN counted.profile_effect = 'rest' AND pools.rest > interval '0' THEN 'rest'
            WHEN counted.profile_effect IN ('cooldown', 'pause_of_host') AND counted.host IS NULL THEN 'cooldown'
            WHEN counted.profile_effect = 'lost' AND counted.browser_started
                 AND pools.lost_cooldown > interval '0' THEN 'cooldown'
            WHEN counted.holds > 0 THEN 'hold'
        END AS waits_for,
        CASE counted.profile_effect
            WHEN 'rest' THEN pools.rest
            WHEN 'cooldown' THEN least(
                pools.failure_cooldown * power(2, least(30, greatest(0, score.failures - 1))) * (1 + 0.25 * random()),
                pools.failure_cooldown_cap
            )
            WHEN 'pause_of_host' THEN coalesce(
                make_interval(secs => counted.retry_after),
                -- No host is known that could have been paused when the visit told the time.
                (SELECT max(visits.ended_at + make_interval(secs => visits.retry_after)) - clock_timestamp()
                 FROM poolsql.visits WHERE visits.lease_id = counted.lease_id AND counted.host IS NULL),
                pools.rate_pause
            )
            WHEN 'lost' THEN pools.lost_cooldown
            WHEN 'hold' THEN least(pools.hold * power(2, least(30, greatest(0, counted.holds - 1))), pools.hold_cap)
        END AS wait,
        CASE
            WHEN counted.state = 'retired' THEN NULL
            WHEN score.failures >= pools.retire_after THEN score.failures || ' blamed attempts in a row'
            -- The share can only have grown with a blamed attempt, or with the one that completes the first window.
            WHEN (counted.counted OR counted.uses = pools.retire_window) AND (
                SELECT count(*) = pools.retire_window - 1
                    AND count(*) FILTER (WHERE recent.counted) + counted.counted::int
                        >= pools.retire_rate * pools.retire_window - 0.000001
                FROM (
                    SELECT attempts.counted
                    FROM poolsql.attempts
                    WHERE attempts.profile_id = counted.profile_id AND attempts.ended_at > counted.judged_from
                    ORDER BY attempts.ended_at DESC
                    LIMIT pools.retire_window - 1
                ) AS recent
            ) THEN 'too many of its last ' || pools.retire_window || ' attempts were blamed on it'
            WHEN counted.uses >= pools.max_uses THEN 'used ' || counted.uses || ' times'
            WHEN clock_timestamp() > counted.judged_from + pools.max_age THEN 'reached its maximum age'
        END AS retired_because
    FROM counted
    JOIN poolsql.pools ON pools.id = counted.pool_id
    CROSS JOIN LATERAL (
        SELECT CASE WHEN counted.outcome = 'success' THEN 0
                    ELSE counted.consecutive_failures + counted.counted::int END AS failures
    ) AS score
),
-- A fault of the proxy holds all profiles behind it, those that come back in this very statement too.
failed_proxies AS MATERIALIZED (
    SELECT timed.proxy_id, max(timed.now + timed.wait) AS hold_until
    FROM timed
    WHERE timed.outcome = 'proxy_failed' AND timed.proxy_id IS NOT NULL
    GROUP BY timed.proxy_id
),
final AS MATERIALIZED (
    SELECT timed.*, holds.until AS held_until, greatest(
        timed.now, holds.until, CASE WHEN timed.waits_for IS NOT NULL THEN timed.now + timed.wait END
    ) AS available_at
    FROM timed
    LEFT JOIN failed_proxies ON failed_proxies.proxy_id = timed.proxy_id AND timed.outcome <> 'proxy_failed'
    CROSS JOIN LATERAL (SELECT greatest(timed.hold_until, failed_proxies.hold_until) AS until) AS holds
),
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
        SELECT waiters.id, waiters.request_id, waiters.worker_id, waiters.task, waiters.host, workers.lock_key
        FROM poolsql.waiters
        JOIN poolsql.workers ON workers.id = waiters.worker_id
        WHERE waiters.pool_id = final.pool_id
          AND waiters.listens
          AND waiters.gives_up_at > final.now
          -- A try that was lost on its way may have leased meanwhile: its worker will find that.
          AND NOT EXISTS (SELECT FROM poolsql.leases WHERE leases.request_id = waiters.request_id)
          AND workers.waiting_seen_at > final.now - %(ticket_life)s::interval
          AND profiles.tags @> waiters.tags
          AND NOT profiles.tags && waiters.without_tags
          AND (waiters.profile_id IS NULL OR waiters.profile_id = final.profile_id)
          AND (profiles.machine IS NULL OR profiles.machine = waiters.machine)
          AND (launchers.machines IS NULL OR waiters.machine = ANY (launchers.machines))
          AND NOT EXISTS (
              SELECT FROM poolsql.hosts
              WHERE hosts.name = waiters.host
                AND (hosts.stopped_at IS NOT NULL OR hosts.paused_until > final.now)
          )
          AND NOT EXISTS (
              SELECT FROM poolsql.cooldowns
              WHERE cooldowns.profile_id = final.profile_id
                AND cooldowns.host = waiters.host
                AND cooldowns.until > final.now
          )
          AND NOT EXISTS (
              SELECT FROM visit_now AS visit
              JOIN poolsql.outcomes ON outcomes.outcome = visit.outcome
              WHERE visit.host = waiters.host
                AND (outcomes.host_effect IN ('back_off', 'rate_pause', 'block_pause')
                     OR outcomes.profile_effect IN ('cooldown', 'pause_of_host'))
          )
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
-- A leased one only learns of its proxy's fault (available_at stays NULL) and is held when it comes back. Rows that
-- somebody else is changing are skipped: waiting for them could deadlock.
behind_proxy AS MATERIALIZED (
    SELECT sibling.id, greatest(sibling.hold_until, failed_proxies.hold_until) AS hold_until
    FROM failed_proxies
    JOIN poolsql.profiles AS sibling ON sibling.proxy_id = failed_proxies.proxy_id
    -- No row is changed twice by one statement.
    WHERE sibling.id NOT IN (SELECT final.profile_id FROM final)
    ORDER BY sibling.id
    FOR UPDATE OF sibling SKIP LOCKED
),
held AS (
    UPDATE poolsql.profiles
    SET hold_until = behind_proxy.hold_until,
        waits_for = CASE WHEN profiles.available_at < behind_proxy.hold_until THEN 'hold' ELSE profiles.waits_for END,
        available_at = CASE WHEN profiles.available_at IS NOT NULL
                            THEN greatest(profiles.available_at, behind_proxy.hold_until) END
    FROM behind_proxy
    WHERE profiles.id = behind_proxy.id
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
    (SELECT pg_notify('poolsql_' || called.lock_key, called.request_id::text) FROM called)::text AS told
FROM final
