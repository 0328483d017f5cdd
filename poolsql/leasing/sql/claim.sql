-- Take the lease that a request got while it waited, or by a checkout whose answer was lost. Repeating it changes
-- nothing but the time, as a renewal does. The request waits no longer, however it got its lease.
WITH lease AS MATERIALIZED (
    UPDATE poolsql.leases
    SET unclaimed = false,
        expires_at = least(clock_timestamp() + leases.ttl, leases.deadline_at)
    WHERE leases.request_id = %(request_id)s
      AND leases.worker_id = %(worker_id)s
      AND leases.state = 'held'
      AND leases.deadline_at > clock_timestamp()
    RETURNING leases.*
),
gone AS (
    DELETE FROM poolsql.waiters USING lease WHERE waiters.request_id = lease.request_id
)
SELECT lease.id AS lease_id, lease.token, lease.ttl, pools.renew, lease.acquired_at, lease.expires_at,
    lease.deadline_at, lease.deadline_at - clock_timestamp() AS longest, profiles.id AS profile_id,
    profiles.key AS profile_key, profiles.tags, profiles.seed, profiles.options, profiles.proxy_id,
    launchers.name AS launcher
FROM lease
JOIN poolsql.profiles ON profiles.id = lease.profile_id
JOIN poolsql.launchers ON launchers.id = profiles.launcher_id
JOIN poolsql.pools ON pools.id = lease.pool_id
