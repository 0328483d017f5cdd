-- One page load of a host: its place in the host's pace, whoever asks from whichever machine. Nothing is granted on
-- a paused or stopped host. The delay of the host's row wins over the caller's.
WITH asked AS MATERIALIZED (
    INSERT INTO poolsql.hosts AS host (name, next_slot_at)
    VALUES (%(host)s, clock_timestamp() + make_interval(secs => %(delay)s::float8))
    ON CONFLICT (name) DO UPDATE
    SET next_slot_at = CASE
        WHEN host.stopped_at IS NOT NULL OR host.paused_until > clock_timestamp() THEN host.next_slot_at
        ELSE greatest(host.next_slot_at, clock_timestamp())
            + coalesce(host.delay, make_interval(secs => %(delay)s::float8))
    END
    RETURNING host.next_slot_at - coalesce(host.delay, make_interval(secs => %(delay)s::float8)) AS slot_at,
        host.stopped_at IS NOT NULL AS stopped, host.paused_until
)
SELECT asked.stopped,
    greatest(0, extract(epoch FROM asked.paused_until - clock_timestamp()))::float8 AS paused_for,
    greatest(0, extract(epoch FROM asked.slot_at - clock_timestamp()))::float8 AS wait
FROM asked
