-- The robots.txt of an origin, if the answer is still good.
SELECT robots.status, robots.body,
    extract(epoch FROM robots.expires_at - clock_timestamp())::float8 AS seconds_left
FROM poolsql.robots
WHERE robots.origin = %(origin)s AND robots.agent = %(agent)s AND robots.expires_at > clock_timestamp()
