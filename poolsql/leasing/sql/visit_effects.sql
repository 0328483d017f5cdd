-- What visits do to the host and to the profile × host, unless they are successes (forgiven.sql). Follows visited.sql.
-- It is written before anybody can lease the profile again.
host_news AS MATERIALIZED (
    SELECT DISTINCT ON (visit.host) visit.host, visit.outcome, outcomes.host_effect,
        CASE outcomes.host_effect
            WHEN 'block_pause' THEN pools.block_pause
            WHEN 'rate_pause' THEN pools.rate_pause
            ELSE pools.site_back_off
        END AS first_pause,
        CASE outcomes.host_effect WHEN 'back_off' THEN pools.site_back_off_cap ELSE pools.pause_cap END AS cap,
        -- A site that names the time is obeyed in full, whatever the cap.
        CASE WHEN outcomes.host_effect <> 'back_off' THEN make_interval(secs => visit.retry_after) END AS told
    FROM visit_now AS visit
    JOIN poolsql.outcomes ON outcomes.outcome = visit.outcome
    JOIN poolsql.pools ON pools.id = visit.pool_id
    WHERE visit.host IS NOT NULL AND outcomes.host_effect IN ('back_off', 'rate_pause', 'block_pause')
    ORDER BY visit.host, outcomes.severity DESC
),
-- Pages that were in flight when the pause began tell the same news again: the pause grows only once it has ended.
paused AS (
    INSERT INTO poolsql.hosts AS host (
        name, blocks_in_a_row, limits_in_a_row, errors_in_a_row, pause_reason, paused_until
    )
    SELECT news.host, (news.host_effect = 'block_pause')::int, (news.host_effect = 'rate_pause')::int,
        (news.host_effect = 'back_off')::int, news.outcome,
        clock_timestamp() + coalesce(news.told, least(news.first_pause, news.cap))
    FROM host_news AS news
    ON CONFLICT (name) DO UPDATE
    SET (blocks_in_a_row, limits_in_a_row, errors_in_a_row, pause_reason, paused_until) = (
        SELECT host.blocks_in_a_row + grown.by * excluded.blocks_in_a_row,
            host.limits_in_a_row + grown.by * excluded.limits_in_a_row,
            host.errors_in_a_row + grown.by * excluded.errors_in_a_row,
            CASE WHEN grown.until >= coalesce(host.paused_until, '-infinity') THEN excluded.pause_reason
                 ELSE host.pause_reason END,
            greatest(host.paused_until, grown.until)
        FROM (
            SELECT step.by, clock_timestamp() + coalesce(
                news.told,
                least(news.first_pause * power(2, least(30, greatest(0, past.in_a_row + step.by - 1))), news.cap)
            ) AS until
            FROM host_news AS news
            CROSS JOIN LATERAL (
                SELECT CASE news.host_effect
                    WHEN 'block_pause' THEN host.blocks_in_a_row
                    WHEN 'rate_pause' THEN host.limits_in_a_row
                    ELSE host.errors_in_a_row
                END AS in_a_row
            ) AS past
            CROSS JOIN LATERAL (
                SELECT CASE WHEN host.paused_until > clock_timestamp() AND past.in_a_row > 0 THEN 0 ELSE 1 END AS by
            ) AS step
            WHERE news.host = excluded.name
        ) AS grown
    )
    RETURNING host.name, host.paused_until
),
cooled AS (
    INSERT INTO poolsql.cooldowns AS cooldown (profile_id, host, until, in_a_row, outcome, set_at)
    SELECT visit.profile_id, visit.host,
        CASE outcomes.profile_effect
            WHEN 'pause_of_host' THEN paused.paused_until
            ELSE clock_timestamp() + least(
                pools.failure_cooldown * (1 + 0.25 * random()), pools.failure_cooldown_cap
            )
        END,
        (outcomes.counts = 'always')::int, visit.outcome, clock_timestamp()
    FROM visit_now AS visit
    JOIN poolsql.outcomes ON outcomes.outcome = visit.outcome
    JOIN poolsql.pools ON pools.id = visit.pool_id
    LEFT JOIN paused ON paused.name = visit.host
    WHERE visit.host IS NOT NULL AND outcomes.profile_effect IN ('cooldown', 'pause_of_host')
    ON CONFLICT (profile_id, host) DO UPDATE
    -- Here too, pages that were in flight when it began don't make it grow.
    SET in_a_row = cooldown.in_a_row + CASE
            WHEN cooldown.until > clock_timestamp() AND cooldown.in_a_row > 0 THEN 0 ELSE excluded.in_a_row
        END,
        outcome = excluded.outcome,
        set_at = excluded.set_at,
        until = greatest(cooldown.until, CASE
            WHEN excluded.in_a_row = 0 THEN excluded.until
            ELSE clock_timestamp() + (
                SELECT least(
                    pools.failure_cooldown * power(2, least(30, CASE
                        WHEN cooldown.until > clock_timestamp() THEN greatest(0, cooldown.in_a_row - 1)
                        ELSE cooldown.in_a_row
                    END)) * (1 + 0.25 * random()),
                    pools.failure_cooldown_cap
                )
                FROM visit_now AS visit
                JOIN poolsql.pools ON pools.id = visit.pool_id
                WHERE visit.profile_id = excluded.profile_id
                LIMIT 1
            )
        END)
),
