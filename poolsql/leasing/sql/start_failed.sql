-- A browser did not start: whose fault is it? (I5)
-- 'pause': this profile cannot be started while its siblings start well. 'breaker': nothing of this launcher starts,
-- so its breaker opens and the holds that its failures had set are lifted: no profile is touched. Else 'hold'.
WITH failed AS MATERIALIZED (
    SELECT launchers.id AS launcher_id, profiles.id AS profile_id, launchers.start_failures + 1 AS failures,
        launchers.breaker_openings, coalesce(launchers.breaker_open_until > clock_timestamp(), false) AS open,
        profiles.consecutive_holds AS holds,
        CASE WHEN profiles.id = ANY (launchers.failed_profiles) THEN launchers.failed_profiles
             ELSE launchers.failed_profiles || profiles.id END AS failed_profiles,
        launchers.last_started_at > profiles.last_released_at AS sibling_started_since,
        launchers.last_started_at > clock_timestamp() - interval '1 day' AS started_today,
        (SELECT count(*) FROM (
            SELECT FROM poolsql.profiles AS sibling
            WHERE sibling.launcher_id = launchers.id AND sibling.state = 'active'
            LIMIT 2
        ) AS few) AS siblings
    FROM poolsql.leases
    JOIN poolsql.profiles ON profiles.id = leases.profile_id
    JOIN poolsql.launchers ON launchers.id = profiles.launcher_id
    WHERE leases.id = %(lease_id)s AND leases.token = %(token)s AND leases.state = 'held'
    FOR UPDATE OF launchers
),
verdict AS MATERIALIZED (
    SELECT failed.*, CASE
        WHEN %(fault)s::text = 'profile' AND failed.holds > 0 AND failed.sibling_started_since THEN 'pause'
        WHEN %(fault)s::text = 'profile' AND failed.holds > 1 AND failed.started_today
             AND cardinality(failed.failed_profiles) = 1 THEN 'pause'
        WHEN failed.failures >= 3 AND cardinality(failed.failed_profiles) >= failed.siblings THEN 'breaker'
        ELSE 'hold'
    END AS verdict
    FROM failed
),
noted AS (
    UPDATE poolsql.launchers
    SET start_failures = verdict.failures,
        failed_profiles = verdict.failed_profiles,
        breaker_openings = verdict.breaker_openings + (verdict.verdict = 'breaker' AND NOT verdict.open)::int,
        breaker_reason = CASE WHEN verdict.verdict = 'breaker' THEN %(reason)s::text ELSE launchers.breaker_reason END,
        -- Starts that were under way when it opened tell the same news again: it grows only once it has ended.
        breaker_open_until = CASE
            WHEN verdict.verdict = 'breaker' AND NOT verdict.open THEN clock_timestamp() + least(
                interval '30 seconds' * power(2, least(30, verdict.breaker_openings)), interval '10 minutes'
            )
            ELSE launchers.breaker_open_until
        END
    FROM verdict
    WHERE launchers.id = verdict.launcher_id
),
lifted AS (
    UPDATE poolsql.profiles
    SET available_at = CASE WHEN profiles.available_at IS NOT NULL
                            THEN greatest(clock_timestamp(), profiles.hold_until) END,
        waits_for = CASE WHEN profiles.hold_until > clock_timestamp() THEN 'hold' END,
        consecutive_holds = 0
    FROM verdict
    WHERE verdict.verdict = 'breaker'
      AND profiles.launcher_id = verdict.launcher_id
      AND profiles.id <> verdict.profile_id
      AND profiles.waits_for = 'hold'
      AND profiles.last_outcome = 'launch_failed'
)
SELECT verdict FROM verdict
