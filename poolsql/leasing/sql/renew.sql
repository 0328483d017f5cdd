-- Renew all leases of a worker that it knows of, in one statement. A lease that is not live is not touched; that its
-- renewal was refused is recorded, unless the token is foreign. An expired lease that nobody has reaped yet is live:
-- the row lock decides.
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest(%(lease_ids)s::bigint[], %(tokens)s::uuid[]) AS asked (lease_id, token)
),
renewed AS (
    UPDATE poolsql.leases
    SET expires_at = least(clock_timestamp() + leases.ttl, leases.deadline_at)
    FROM asked
    WHERE leases.id = asked.lease_id
      AND leases.token = asked.token
      AND leases.state = 'held'
      AND leases.deadline_at > clock_timestamp()
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
