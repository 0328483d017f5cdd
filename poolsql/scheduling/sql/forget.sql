-- What nobody needs any more, a batch of each: tickets of processes that are gone, sticky keys that nobody uses, and
-- workers that ended long ago and hold nothing.
WITH tickets AS (
    DELETE FROM poolsql.waiters
    WHERE waiters.id IN (
        SELECT stale.id
        FROM poolsql.waiters AS stale
        LEFT JOIN poolsql.workers ON workers.id = stale.worker_id
        WHERE stale.gives_up_at < clock_timestamp() - interval '1 minute'
           OR workers.waiting_seen_at < clock_timestamp() - interval '1 minute'
           OR workers.id IS NULL
        LIMIT %(batch)s
    )
    RETURNING 1
),
keys AS (
    DELETE FROM poolsql.sticky_keys
    WHERE (sticky_keys.pool_id, sticky_keys.key) IN (
        SELECT stale.pool_id, stale.key
        FROM poolsql.sticky_keys AS stale
        WHERE stale.used_at < clock_timestamp() - %(keep_keys)s::interval
        LIMIT %(batch)s
    )
    RETURNING 1
),
ended AS (
    DELETE FROM poolsql.workers
    WHERE workers.id IN (
        SELECT stale.id
        FROM poolsql.workers AS stale
        WHERE stale.ended_at < clock_timestamp() - %(keep)s::interval
          AND NOT EXISTS (SELECT FROM poolsql.leases WHERE leases.worker_id = stale.id)
        LIMIT %(batch)s
    )
    RETURNING 1
)
SELECT (SELECT count(*) FROM tickets) AS tickets, (SELECT count(*) FROM keys) AS keys,
    (SELECT count(*) FROM ended) AS workers
