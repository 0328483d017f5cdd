-- The lease of a checkout whose answer was lost: the same request gets the same lease.
SELECT leases.id AS lease_id, leases.token, leases.ttl, pools.renew, leases.acquired_at, leases.expires_at,
    leases.deadline_at, profiles.id AS profile_id, profiles.key AS profile_key, profiles.tags, profiles.seed,
    profiles.options, profiles.proxy_id, launchers.name AS launcher, true AS found_again
FROM poolsql.leases
JOIN poolsql.profiles ON profiles.id = leases.profile_id
JOIN poolsql.launchers ON launchers.id = profiles.launcher_id
JOIN poolsql.pools ON pools.id = leases.pool_id
WHERE leases.request_id = %(request_id)s
  AND leases.worker_id = %(worker_id)s
  AND leases.state = 'held'
