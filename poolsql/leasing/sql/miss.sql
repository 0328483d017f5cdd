-- A checkout got nothing: count why, say when the next profile is expected, and record the miss; unless it is no miss
-- because a profile is available now, and another try is left. Follows judged.sql.
summed AS MATERIALIZED (
    SELECT
        coalesce((
            SELECT jsonb_object_agg(reason, number)
            FROM (SELECT reason, count(*) AS number FROM judged GROUP BY reason) AS grouped
        ), '{}') AS counts,
        (SELECT min(free_at) FROM judged
         WHERE reason IN ('cooling', 'held', 'resting', 'breaker', 'host_paused', 'available')
        ) AS next_free_at
),
missed AS (
    INSERT INTO poolsql.misses (pool_id, worker_id, task, host, tags, without_tags, waited, counts, next_free_at)
    SELECT %(pool_id)s, %(worker_id)s, %(task)s, %(host)s, %(tags)s::text[],
        %(without_tags)s::text[], make_interval(secs => %(waited)s::float8), summed.counts, summed.next_free_at
    FROM summed
    WHERE %(last_try)s::bool OR NOT summed.counts ? 'available'
)
SELECT counts, next_free_at FROM summed
