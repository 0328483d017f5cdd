-- Refused reports and misses of long ago, a batch of each.
WITH reports AS (
    DELETE FROM poolsql.refused_reports
    WHERE refused_reports.id IN (
        SELECT stale.id
        FROM poolsql.refused_reports AS stale
        WHERE stale.at < clock_timestamp() - %(keep)s::interval
        LIMIT %(batch)s
    )
    RETURNING 1
),
missed AS (
    DELETE FROM poolsql.misses
    WHERE misses.id IN (
        SELECT stale.id
        FROM poolsql.misses AS stale
        WHERE stale.at < clock_timestamp() - %(keep)s::interval
        LIMIT %(batch)s
    )
    RETURNING 1
)
SELECT (SELECT count(*) FROM reports) AS reports, (SELECT count(*) FROM missed) AS misses
