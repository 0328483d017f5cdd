-- Retire free profiles that meet a rule without having been used since: the pool's policy changed, or time passed.
-- The failure rate is not looked at here: it only changes with an attempt, and close.sql looks at it then.
WITH due AS MATERIALIZED (
    SELECT profiles.id, CASE
        WHEN profiles.consecutive_failures >= pools.retire_after
            THEN profiles.consecutive_failures || ' blamed attempts in a row'
        WHEN profiles.uses >= pools.max_uses THEN 'used ' || profiles.uses || ' times'
        ELSE 'reached its maximum age'
    END AS reason
    FROM poolsql.profiles
    JOIN poolsql.pools ON pools.id = profiles.pool_id
    WHERE profiles.state = 'active'
      AND profiles.available_at IS NOT NULL
      AND (profiles.consecutive_failures >= pools.retire_after
           OR profiles.uses >= pools.max_uses
           OR clock_timestamp() > profiles.judged_from + pools.max_age)
    ORDER BY profiles.id
    LIMIT %(batch)s
    FOR UPDATE OF profiles SKIP LOCKED
)
UPDATE poolsql.profiles
SET state = 'retired', state_reason = due.reason, state_changed_at = clock_timestamp(), state_changed_by = 'poolsql'
FROM due
WHERE profiles.id = due.id
RETURNING profiles.id AS profile_id, profiles.key, due.reason
