-- Profiles with the reason why each is not offered. Follows judged.sql.
listed AS (
    SELECT profiles.id, pools.name AS pool, launchers.name AS launcher, profiles.key, proxies.name AS proxy,
        profiles.tags, profiles.machine, profiles.seed, profiles.state, profiles.state_reason,
        profiles.state_changed_at, profiles.state_changed_by, judged.reason,
        CASE WHEN judged.free_at > clock_timestamp() THEN judged.free_at END AS free_at,
        profiles.consecutive_failures, profiles.uses, profiles.last_outcome, profiles.last_released_at,
        profiles.last_success_at, profiles.needs_person_since, profiles.created_at
    FROM judged
    JOIN poolsql.profiles ON profiles.id = judged.profile_id
    JOIN poolsql.pools ON pools.id = judged.pool_id
    JOIN poolsql.launchers ON launchers.id = profiles.launcher_id
    LEFT JOIN poolsql.proxies ON proxies.id = profiles.proxy_id
)
SELECT *, free_at - clock_timestamp() AS free_in
FROM listed
WHERE (%(launcher)s::text IS NULL OR launcher = %(launcher)s)
  AND (%(state)s::text IS NULL OR state = %(state)s)
  AND (%(reason)s::text IS NULL OR reason = %(reason)s)
  AND (%(only)s::bigint IS NULL OR id = %(only)s)
  AND coalesce(tags @> %(wanted_tags)s::text[], false)
ORDER BY pool, launcher, key
