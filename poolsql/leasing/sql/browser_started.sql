-- A browser runs: keep its address, and note for its launcher that starting works.
WITH lease AS MATERIALIZED (
    UPDATE poolsql.leases
    SET browser = %(browser)s::jsonb
    WHERE leases.id = %(lease_id)s AND leases.token = %(token)s AND leases.state = 'held'
    RETURNING leases.id, leases.profile_id
),
launcher AS (
    UPDATE poolsql.launchers
    SET last_started_at = clock_timestamp(), start_failures = 0, failed_profiles = '{}', breaker_openings = 0,
        breaker_open_until = NULL, breaker_reason = NULL
    FROM lease
    JOIN poolsql.profiles ON profiles.id = lease.profile_id
    WHERE launchers.id = profiles.launcher_id
)
SELECT id AS lease_id FROM lease
