-- Keep an origin's answer for everybody.
INSERT INTO poolsql.robots (origin, agent, status, body, fetched_at, expires_at)
VALUES (
    %(origin)s, %(agent)s, %(status)s, %(body)s, clock_timestamp(),
    clock_timestamp() + make_interval(secs => %(seconds)s::float8)
)
ON CONFLICT (origin, agent) DO UPDATE
SET status = excluded.status, body = excluded.body, fetched_at = excluded.fetched_at,
    expires_at = excluded.expires_at
