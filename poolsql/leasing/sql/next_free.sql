-- In how many seconds the next profile of these pools is due back, whatever it is good for; NULL: in none known.
SELECT extract(epoch FROM min(soonest.available_at) - clock_timestamp())::float8 AS seconds
FROM unnest(%(pool_ids)s::bigint[]) AS pool (id)
CROSS JOIN LATERAL (
    SELECT profiles.available_at
    FROM poolsql.profiles
    WHERE profiles.pool_id = pool.id
      AND profiles.state = 'active'
      AND profiles.available_at > clock_timestamp()
    ORDER BY profiles.available_at
    LIMIT 1
) AS soonest
