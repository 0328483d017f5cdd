-- What a success does to the host and to the profile × host. Follows visited.sql.
-- A success ends what had grown, but never lifts a pause that is still on.
recovered AS (
    UPDATE poolsql.hosts
    SET blocks_in_a_row = 0, limits_in_a_row = 0, errors_in_a_row = 0
    FROM visit_now AS visit
    WHERE visit.outcome = 'success'
      AND hosts.name = visit.host
      AND hosts.blocks_in_a_row + hosts.limits_in_a_row + hosts.errors_in_a_row > 0
      AND (hosts.paused_until IS NULL OR hosts.paused_until <= clock_timestamp())
),
forgiven AS (
    DELETE FROM poolsql.cooldowns
    USING visit_now AS visit
    WHERE visit.outcome = 'success'
      AND cooldowns.profile_id = visit.profile_id
      AND cooldowns.host = visit.host
      AND cooldowns.until <= clock_timestamp()
)
