-- The longest available profile that matches, locked. Follows asked.sql and one of from_pool.sql, from_profile.sql and
-- from_tag.sql.
--
-- * What must hold at the moment of locking is a column of the locked row: pool, state, available_at, machine. When
--   another checkout was faster, Postgres skips the row while it is locked and re-checks its newest version later.
-- * available_at is NULL while a lease row exists, so a leased profile never passes the comparison.
-- * A release writes clock_timestamp(), and this compares with statement_timestamp(): a checkout whose snapshot is
--   older than the release can't see the cooldowns that it set, and does not take that profile.
    JOIN poolsql.launchers ON launchers.id = profiles.launcher_id
    WHERE profiles.pool_id = (SELECT pool_id FROM asked)
      AND profiles.state = 'active'
      AND profiles.available_at < statement_timestamp()
      -- Before it there is nothing worth a look (floors.py).
      AND profiles.available_at >= coalesce(%(floor)s::timestamptz, '-infinity')
      AND (profiles.machine IS NULL OR profiles.machine = %(machine)s::text)
      AND (launchers.machines IS NULL OR %(machine)s::text = ANY (launchers.machines))
      AND (launchers.breaker_open_until IS NULL OR launchers.breaker_open_until <= statement_timestamp())
      -- coalesce keeps the planner from guessing that hardly any profile passes: it would re-plan each call, or read
      -- and sort the whole pool instead of taking the first from the index.
      AND coalesce(profiles.tags @> %(tags)s::text[], false)
      AND NOT coalesce(profiles.tags && %(without_tags)s::text[], false)
      AND coalesce(profiles.id = %(profile_id)s::bigint, true)
      AND NOT EXISTS (
          SELECT FROM poolsql.cooldowns
          WHERE cooldowns.profile_id = profiles.id
            AND cooldowns.host = %(host)s::text
            AND cooldowns.until > statement_timestamp()
      )
      AND (%(in_line)s::bool OR (
          NOT EXISTS (SELECT FROM ahead WHERE ahead.machine = %(machine)s::text)
          -- Whoever waits on other machines comes first for what any machine can drive.
          AND (profiles.machine IS NOT NULL OR launchers.machines IS NOT NULL OR NOT EXISTS (SELECT FROM ahead))
      ))
    ORDER BY profiles.available_at
    LIMIT 1
    FOR UPDATE OF profiles SKIP LOCKED
),
