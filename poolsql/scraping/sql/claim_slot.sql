-- One page load of a host: its place in the host's pace, whoever asks from whichever machine. No row comes back, and
-- nothing is taken, where the host is paused or stopped or its next slot is too far away. The delay of the host's row
-- wins over the caller's; what the site's robots.txt asks for is the least in any case.
INSERT INTO poolsql.hosts AS host (name, next_slot_at)
VALUES (
    %(host)s,
    clock_timestamp() + make_interval(secs => greatest(%(delay)s::float8, %(at_least)s::float8))
)
ON CONFLICT (name) DO UPDATE
SET next_slot_at = greatest(host.next_slot_at, clock_timestamp()) + greatest(
    coalesce(host.delay, make_interval(secs => %(delay)s::float8)), make_interval(secs => %(at_least)s::float8)
)
WHERE host.stopped_at IS NULL
  AND (host.paused_until IS NULL OR host.paused_until <= clock_timestamp())
  AND (
      host.next_slot_at IS NULL
      OR host.next_slot_at <= clock_timestamp() + make_interval(secs => %(longest_wait)s::float8)
  )
RETURNING greatest(0, extract(epoch FROM
    host.next_slot_at - greatest(
        coalesce(host.delay, make_interval(secs => %(delay)s::float8)), make_interval(secs => %(at_least)s::float8)
    ) - clock_timestamp()
))::float8 AS wait
