-- Lease the picked profile to who asks: the end of a checkout. leases.profile_id is unique: were all of picked.sql
-- wrong, the second lease would still be refused.
leased AS (
    INSERT INTO poolsql.leases (
        token, request_id, profile_id, pool_id, worker_id, task, host, ttl, acquired_at, expires_at, deadline_at
    )
    SELECT gen_random_uuid(), %(request_id)s, picked.id, asked.pool_id, %(worker_id)s, %(task)s, %(host)s,
        asked.ttl, asked.now, asked.now + asked.ttl, asked.now + asked.max_lease
    FROM picked, asked
    RETURNING id, token, profile_id, ttl, acquired_at, expires_at, deadline_at
)
UPDATE poolsql.profiles
SET available_at = NULL, waits_for = NULL
FROM leased
JOIN picked ON picked.id = leased.profile_id
WHERE profiles.id = leased.profile_id
RETURNING leased.id AS lease_id, leased.token, leased.ttl, (SELECT renew FROM asked) AS renew,
    (SELECT max_lease FROM asked) AS longest, leased.acquired_at, leased.expires_at, leased.deadline_at,
    profiles.id AS profile_id, profiles.key AS profile_key, profiles.tags, profiles.seed, profiles.options,
    profiles.proxy_id, picked.launcher, picked.available_at AS offered_at
