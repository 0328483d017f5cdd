-- What becomes of a profile by the end of its lease. Expects closing, whose leases are locked. Goes on in ended.sql:
-- cooldown, hold or retirement are set by the statement that ends the lease, so that there is no moment in which a
-- failing profile is free (I4).
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
)
