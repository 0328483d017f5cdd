-- Lease the longest available profile of a pool. One statement, one round trip, safe against any number of others:
--
-- * What must hold at the moment of locking is a column of the locked row: pool, state, available_at, machine. When
--   another checkout was faster, Postgres skips the row while it is locked and re-checks its newest version later.
-- * available_at is NULL while a lease row exists, so a leased profile never passes the comparison.
-- * A release writes clock_timestamp(), and this compares with statement_timestamp(): a checkout whose snapshot is
--   older than the release can't see the cooldowns that it set, and does not take that profile.
-- * leases.profile_id is unique: were all of the above wrong, the second lease would still be refused.
WITH asked AS MATERIALIZED (
    SELECT pools.id AS pool_id, pools.ttl, pools.renew, pools.max_lease, clock_timestamp() AS now
    FROM poolsql.pools
    WHERE pools.id = %(pool_id)s
      AND pools.paused_at IS NULL
      AND NOT EXISTS (
          SELECT FROM poolsql.hosts
          WHERE hosts.name = %(host)s::text
            AND (hosts.stopped_at IS NOT NULL OR hosts.paused_until > statement_timestamp())
      )
),
picked AS MATERIALIZED (
    SELECT profiles.id, launchers.name AS launcher
    FROM poolsql.profiles
    JOIN poolsql.launchers ON launchers.id = profiles.launcher_id
    WHERE profiles.pool_id = (SELECT pool_id FROM asked)
      AND profiles.state = 'active'
      AND profiles.available_at < statement_timestamp()
      AND (profiles.machine IS NULL OR profiles.machine = %(machine)s::text)
      AND (launchers.machines IS NULL OR %(machine)s::text = ANY (launchers.machines))
      AND (launchers.breaker_open_until IS NULL OR launchers.breaker_open_until <= statement_timestamp())
      -- coalesce keeps the planner from re-planning each call for its guess about the tags.
      AND coalesce(profiles.tags @> %(tags)s::text[], false)
      AND (%(profile_id)s::bigint IS NULL OR profiles.id = %(profile_id)s::bigint)
      AND NOT EXISTS (
          SELECT FROM poolsql.cooldowns
          WHERE cooldowns.profile_id = profiles.id
            AND cooldowns.host = %(host)s::text
            AND cooldowns.until > statement_timestamp()
      )
    ORDER BY profiles.available_at
    LIMIT 1
    FOR UPDATE OF profiles SKIP LOCKED
),
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
    leased.acquired_at, leased.expires_at, leased.deadline_at, profiles.id AS profile_id,
    profiles.key AS profile_key, profiles.tags, profiles.seed, profiles.options, profiles.proxy_id, picked.launcher,
    false AS found_again
