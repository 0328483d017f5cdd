-- Whether a host may be loaded from now.
SELECT hosts.stopped_at IS NOT NULL AS stopped,
    greatest(0, extract(epoch FROM hosts.paused_until - clock_timestamp()))::float8 AS paused_for
FROM poolsql.hosts
WHERE hosts.name = %(host)s
