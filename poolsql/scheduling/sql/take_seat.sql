-- One more seat for a worker, if the machine has one left. Seats of the living count, and browsers that leases of
-- others have started and nobody has proven stopped: those of the dead, and of workers that take no seats. To be run
-- while the machine's workers are locked.
WITH others AS (
    SELECT workers.id, CASE WHEN workers.ended_at IS NULL THEN workers.seats ELSE 0 END AS seats,
        (
            SELECT count(*) FROM poolsql.leases
            WHERE leases.worker_id = workers.id AND leases.browser_state = 'started'
        ) AS browsers
    FROM poolsql.workers
    WHERE workers.machine = %(machine)s
      AND workers.id <> %(worker_id)s
      AND (
          workers.ended_at IS NULL
          OR EXISTS (SELECT FROM poolsql.leases WHERE leases.worker_id = workers.id)
      )
), busy AS (
    SELECT coalesce(sum(greatest(others.seats, others.browsers)), 0)::int AS browsers FROM others
), taken AS (
    UPDATE poolsql.workers
    SET seats = %(seats)s::int + 1
    FROM busy
    WHERE workers.id = %(worker_id)s AND busy.browsers + %(seats)s::int < %(most)s::int
    RETURNING workers.id
)
SELECT busy.browsers AS others, EXISTS (SELECT FROM taken) AS taken FROM busy
