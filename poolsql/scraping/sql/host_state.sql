-- Whether a host may be loaded from now, and when its next slot would be.
SELECT hosts.stopped_at IS NOT NULL AS stopped,
    greatest(0, extract(epoch FROM hosts.paused_until - clock_timestamp()))::float8 AS paused_for,
    greatest(0, extract(epoch FROM hosts.next_slot_at - clock_timestamp()))::float8 AS wait
FROM poolsql.hosts
WHERE hosts.name = %(host)s
