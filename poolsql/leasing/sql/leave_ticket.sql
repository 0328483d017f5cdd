-- Stand in the line from the moment of the first try on. A request that has its lease already, though the answer was
-- lost, does not.
WITH seen AS (
    UPDATE poolsql.workers SET waiting_seen_at = clock_timestamp() WHERE workers.id = %(worker_id)s
)
INSERT INTO poolsql.waiters (
    request_id, pool_id, worker_id, machine, listens, task, host, tags, without_tags, profile_id, criteria, rank,
    arrived_at, gives_up_at
)
SELECT %(request_id)s, %(pool_id)s, %(worker_id)s, %(machine)s, %(listens)s, %(task)s, %(host)s, %(tags)s::text[],
    %(without_tags)s::text[], %(profile_id)s, %(criteria)s, arrived.at - %(advance)s::interval, arrived.at,
    clock_timestamp() + make_interval(secs => %(seconds)s::float8)
FROM (SELECT clock_timestamp() - make_interval(secs => %(waited)s::float8) AS at) AS arrived
WHERE NOT EXISTS (SELECT FROM poolsql.leases WHERE leases.request_id = %(request_id)s)
ON CONFLICT (request_id) DO NOTHING
