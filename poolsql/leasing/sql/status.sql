-- How many profiles of each pool are available, and why the others are not. Follows judged.sql.
counted AS (
    SELECT pool_id, reason, count(*) AS profiles,
        min(free_at) FILTER (WHERE reason IN ('cooling', 'held', 'resting', 'breaker')) AS next_free_at
    FROM judged
    GROUP BY pool_id, reason
)
SELECT pools.id AS pool_id, counted.reason, counted.profiles, counted.next_free_at
FROM asked
JOIN poolsql.pools ON pools.id = asked.pool_id
LEFT JOIN counted ON counted.pool_id = pools.id
