-- How many profiles of a pool are available, and why the others are not: the reasons of miss.sql that no request is
-- needed for.
SELECT CASE
        WHEN profiles.state <> 'active' THEN profiles.state
        WHEN leases.state = 'reclaiming' THEN 'reclaiming'
        WHEN profiles.available_at IS NULL THEN 'leased'
        WHEN launchers.breaker_open_until > clock_timestamp() THEN 'breaker'
        WHEN profiles.available_at > clock_timestamp() THEN CASE profiles.waits_for
            WHEN 'hold' THEN 'held' WHEN 'rest' THEN 'resting' ELSE 'cooling' END
        ELSE 'available'
    END AS reason,
    count(*) AS profiles,
    min(profiles.available_at) FILTER (WHERE profiles.available_at > clock_timestamp()) AS next_free_at
FROM poolsql.profiles
JOIN poolsql.launchers ON launchers.id = profiles.launcher_id
LEFT JOIN poolsql.leases ON leases.profile_id = profiles.id
WHERE profiles.pool_id = %(pool_id)s
GROUP BY 1
