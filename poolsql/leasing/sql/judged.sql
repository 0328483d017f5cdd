-- The shared beginning of what tells why profiles are not offered: in one pool or in all (pool_id NULL), to a request
-- or, where it names nothing (NULL, no tags), to anybody. Each profile is judged once, under the first reason that
-- applies.
WITH asked AS MATERIALIZED (
    SELECT pools.id AS pool_id, pools.paused_at IS NOT NULL AS pool_paused,
        hosts.stopped_at IS NOT NULL AS host_stopped,
        CASE WHEN hosts.paused_until > clock_timestamp() THEN hosts.paused_until END AS host_paused_until
    FROM poolsql.pools
    LEFT JOIN poolsql.hosts ON hosts.name = %(host)s::text
    WHERE %(pool_id)s::bigint IS NULL OR pools.id = %(pool_id)s::bigint
),
judged AS MATERIALIZED (
    SELECT profiles.id AS profile_id, asked.pool_id, CASE
            WHEN profiles.state <> 'active' THEN profiles.state
            WHEN NOT coalesce(profiles.tags @> %(tags)s::text[], false)
                 OR coalesce(profiles.tags && %(without_tags)s::text[], false)
                 OR (%(profile_id)s::bigint IS NOT NULL AND profiles.id <> %(profile_id)s::bigint) THEN 'no_match'
            WHEN profiles.machine <> %(machine)s::text
                 OR NOT coalesce(%(machine)s::text = ANY (launchers.machines), true) THEN 'other_machine'
            WHEN asked.host_stopped THEN 'host_stopped'
            WHEN asked.host_paused_until IS NOT NULL THEN 'host_paused'
            WHEN leases.state = 'reclaiming' THEN 'reclaiming'
            WHEN profiles.available_at IS NULL THEN 'leased'
            WHEN launchers.breaker_open_until > clock_timestamp() THEN 'breaker'
            WHEN profiles.available_at > clock_timestamp() THEN CASE profiles.waits_for
                WHEN 'hold' THEN 'held' WHEN 'rest' THEN 'resting' ELSE 'cooling' END
            WHEN cooldowns.until > clock_timestamp() THEN 'cooling'
            WHEN asked.pool_paused THEN 'pool_paused'
            ELSE 'available'
        END AS reason,
        -- NULL while nobody knows: it is leased, or an operator has to act.
        CASE WHEN profiles.state = 'active' AND NOT asked.pool_paused AND NOT asked.host_stopped
                  AND profiles.available_at IS NOT NULL THEN greatest(
            profiles.available_at, cooldowns.until, asked.host_paused_until, launchers.breaker_open_until
        ) END AS free_at
    FROM asked
    JOIN poolsql.profiles ON profiles.pool_id = asked.pool_id
    JOIN poolsql.launchers ON launchers.id = profiles.launcher_id
    LEFT JOIN poolsql.leases ON leases.profile_id = profiles.id
    LEFT JOIN poolsql.cooldowns ON cooldowns.profile_id = profiles.id AND cooldowns.host = %(host)s::text
),
