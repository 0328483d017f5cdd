-- Lease the picked profile to the first in the line of those who ask for this: for profiles that came back without a
-- release, such as after a cooldown. Whoever waits may look; the first one is served. Follows picked.sql.
head AS MATERIALIZED (
    SELECT waiters.id, waiters.request_id, waiters.worker_id, waiters.listens, waiters.task, waiters.host
    FROM poolsql.waiters
    -- Nobody's ticket is locked, and so passed over by a release, for nothing.
    WHERE EXISTS (SELECT FROM picked)
      AND waiters.criteria = %(criteria)s::bigint
      -- One expression, as in ended.sql: the first that passes is found by going along the line.
      AND nullif(
          waiters.machine = %(machine)s::text
          AND waiters.gives_up_at > statement_timestamp()
          AND (
              SELECT workers.waiting_seen_at > statement_timestamp() - %(ticket_life)s::interval
              FROM poolsql.workers
              WHERE workers.id = waiters.worker_id
          )
          AND (SELECT count(*) = 0 FROM poolsql.leases WHERE leases.request_id = waiters.request_id),
          false
      ) IS NOT NULL
    ORDER BY waiters.rank, waiters.id
    LIMIT 1
    FOR UPDATE OF waiters SKIP LOCKED
),
leased AS (
    INSERT INTO poolsql.leases (
        token, request_id, profile_id, pool_id, worker_id, task, host, ttl, acquired_at, expires_at, deadline_at,
        unclaimed
    )
    SELECT gen_random_uuid(), head.request_id, picked.id, asked.pool_id, head.worker_id, head.task, head.host,
        asked.ttl, asked.now, asked.now + least(asked.ttl, %(claim_ttl)s::interval), asked.now + asked.max_lease, true
    FROM head, picked, asked
    -- One that is not told at once must be looking itself, or its time to answer is over before it looks.
    WHERE head.listens OR head.worker_id = %(worker_id)s
    RETURNING id, profile_id, request_id, worker_id
),
taken AS (
    UPDATE poolsql.profiles
    SET available_at = NULL, waits_for = NULL
    FROM leased
    WHERE profiles.id = leased.profile_id
),
gone AS (
    DELETE FROM poolsql.waiters USING leased WHERE waiters.request_id = leased.request_id
)
SELECT leased.id AS lease_id, leased.request_id, leased.worker_id,
    (
        SELECT pg_notify('poolsql_' || workers.lock_key, head.request_id::text)
        FROM head
        JOIN poolsql.workers ON workers.id = head.worker_id
        WHERE head.listens
    )::text AS told
FROM leased
