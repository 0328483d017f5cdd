-- Renew all leases of a worker that it knows of, in one statement. A lease that is not live is not touched; that its
-- renewal was refused is recorded, unless the token is foreign. An expired lease that nobody has reaped yet is live:
-- the row lock decides.
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest(%(lease_ids)s::bigint[], %(tokens)s::uuid[]) AS asked (lease_id, token)
),
-- By id, the order in which everybody locks leases: any other could deadlock with a fence.
live AS MATERIALIZED (
    SELECT leases.id
    FROM poolsql.leases
    JOIN asked ON asked.lease_id = leases.id AND asked.token = leases.token
    WHERE leases.state = 'held' AND leases.deadline_at > clock_timestamp()
    ORDER BY leases.id
    FOR UPDATE OF leases
),
renewed AS (
    UPDATE poolsql.leases
    SET expires_at = least(clock_timestamp() + leases.ttl, leases.deadline_at)
    FROM live
    WHERE leases.id = live.id
    RETURNING leases.id AS lease_id, leases.expires_at,
        extract(epoch FROM leases.expires_at - clock_timestamp())::float8 AS remaining
),
refused AS (
    INSERT INTO poolsql.refused_reports (lease_id, kind, worker_id)
    SELECT asked.lease_id, 'renew', %(worker_id)s
    FROM asked
    WHERE NOT EXISTS (SELECT FROM renewed WHERE renewed.lease_id = asked.lease_id)
      AND (
          EXISTS (SELECT FROM poolsql.leases WHERE leases.id = asked.lease_id AND leases.token = asked.token)
          OR EXISTS (
              SELECT FROM poolsql.attempts
              WHERE attempts.lease_id = asked.lease_id AND attempts.token = asked.token
          )
      )
)
SELECT lease_id, expires_at, remaining FROM renewed
