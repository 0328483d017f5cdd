-- A checkout got nothing: count why, say when the next profile is expected, and record the miss. Each profile is
-- counted once, under the first reason that applies.
WITH asked AS MATERIALIZED (
    SELECT pools.id AS pool_id, pools.paused_at IS NOT NULL AS pool_paused,
        hosts.stopped_at IS NOT NULL AS host_stopped,
        CASE WHEN hosts.paused_until > clock_timestamp() THEN hosts.paused_until END AS host_paused_until
    FROM poolsql.pools
    LEFT JOIN poolsql.hosts ON hosts.name = %(host)s::text
    WHERE pools.id = %(pool_id)s
),
judged AS MATERIALIZED (
    SELECT CASE
            WHEN profiles.state <> 'active' THEN profiles.state
            WHEN NOT coalesce(profiles.tags @> %(tags)s::text[], false)
                 OR (%(profile_id)s::bigint IS NOT NULL AND profiles.id <> %(profile_id)s::bigint) THEN 'no_match'
            WHEN profiles.machine <> %(machine)s::text
                 OR NOT coalesce(%(machine)s::text = ANY (launchers.machines), true) THEN 'other_machine'
            WHEN asked.pool_paused THEN 'pool_paused'
            WHEN asked.host_stopped THEN 'host_stopped'
            WHEN asked.host_paused_until IS NOT NULL THEN 'host_paused'
            WHEN launchers.breaker_open_until > clock_timestamp() THEN 'breaker'
            WHEN leases.state = 'reclaiming' THEN 'reclaiming'
            WHEN profiles.available_at IS NULL THEN 'leased'
            WHEN profiles.available_at > clock_timestamp() THEN CASE profiles.waits_for
                WHEN 'hold' THEN 'held' WHEN 'rest' THEN 'resting' ELSE 'cooling' END
            WHEN cooldowns.until > clock_timestamp() THEN 'cooling'
            ELSE 'available'
        END AS reason,
        greatest(
            profiles.available_at, cooldowns.until, asked.host_paused_until, launchers.breaker_open_until
        ) AS free_at,
        profiles.available_at IS NULL AS leased
    FROM asked
    JOIN poolsql.profiles ON profiles.pool_id = asked.pool_id
    JOIN poolsql.launchers ON launchers.id = profiles.launcher_id
    LEFT JOIN poolsql.leases ON leases.profile_id = profiles.id
    LEFT JOIN poolsql.cooldowns ON cooldowns.profile_id = profiles.id AND cooldowns.host = %(host)s::text
),
summed AS MATERIALIZED (
    SELECT
        coalesce((
            SELECT jsonb_object_agg(reason, number)
            FROM (SELECT reason, count(*) AS number FROM judged GROUP BY reason) AS grouped
        ), '{}') AS counts,
        (SELECT min(free_at) FROM judged
         WHERE NOT leased AND reason IN ('cooling', 'held', 'resting', 'breaker', 'host_paused', 'available')
        ) AS next_free_at
),
missed AS (
    INSERT INTO poolsql.misses (pool_id, worker_id, task, host, tags, waited, counts, next_free_at)
    SELECT %(pool_id)s, %(worker_id)s, %(task)s, %(host)s, %(tags)s::text[],
        make_interval(secs => %(waited)s::float8), summed.counts, summed.next_free_at
    FROM summed
)
SELECT counts, next_free_at FROM summed
