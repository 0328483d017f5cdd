-- Take the next task of a run that may be tried now. A task of a paused or stopped host stays where it is, whichever
-- profile could take it (I12); so does one whose host's next slot is far away, or whose only profile cools on that
-- host: whoever took it would only wait, while tasks of other hosts could go on. Until a lease is attached,
-- claimed_until names the claim and ends it.
WITH picked AS MATERIALIZED (
    SELECT tasks.id
    FROM poolsql.tasks
    WHERE tasks.run_id = %(run_id)s
      AND tasks.state = 'pending'
      AND tasks.not_before <= clock_timestamp()
      AND EXISTS (SELECT FROM poolsql.runs WHERE runs.id = %(run_id)s AND runs.ended_at IS NULL)
      AND (
          %(at_once)s::int IS NULL
          OR %(at_once)s > (
              SELECT count(*) FROM poolsql.tasks AS busy
              WHERE busy.run_id = %(run_id)s AND busy.state = 'running'
          )
      )
      AND NOT EXISTS (
          SELECT FROM poolsql.hosts
          WHERE hosts.name = tasks.host
            AND (
                hosts.stopped_at IS NOT NULL
                OR hosts.paused_until > clock_timestamp()
                OR hosts.next_slot_at > clock_timestamp() + make_interval(secs => %(lead)s::float8)
            )
      )
      AND NOT EXISTS (
          SELECT FROM poolsql.cooldowns
          WHERE cooldowns.profile_id = tasks.profile_id
            AND cooldowns.host = tasks.host
            AND cooldowns.until > clock_timestamp()
      )
    ORDER BY tasks.not_before, tasks.id
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
UPDATE poolsql.tasks
SET state = 'running', lease_id = NULL, changed_at = clock_timestamp(),
    claimed_until = clock_timestamp() + make_interval(secs => %(seconds)s::float8)
FROM picked
WHERE tasks.id = picked.id
RETURNING tasks.id, tasks.url, tasks.host, tasks.tries, tasks.profile_id, tasks.seed,
    tasks.parameters, tasks.claimed_until
