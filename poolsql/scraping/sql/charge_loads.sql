-- Loads of a host that nobody asked a slot for, since a click or a redirect caused them: the next slot waits for them.
INSERT INTO poolsql.hosts AS host (name, next_slot_at)
VALUES (%(host)s, clock_timestamp() + %(loads)s::int * make_interval(secs => %(delay)s::float8))
ON CONFLICT (name) DO UPDATE
SET next_slot_at = greatest(host.next_slot_at, clock_timestamp())
    + %(loads)s::int * coalesce(host.delay, make_interval(secs => %(delay)s::float8))
RETURNING host.next_slot_at
