-- The beginning of every statement that leases. What it asks is nothing where the pool is paused, or the site that is
-- named is paused or stopped.
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
-- Those who wait for the same and came first, by rank.
ahead AS NOT MATERIALIZED (
    SELECT waiters.machine
    FROM poolsql.waiters
    JOIN poolsql.workers ON workers.id = waiters.worker_id
    WHERE waiters.criteria = %(criteria)s::bigint
      AND waiters.rank < clock_timestamp() - %(advance)s::interval
      AND waiters.gives_up_at > statement_timestamp()
      AND workers.waiting_seen_at > statement_timestamp() - %(ticket_life)s::interval
),
