-- Before a browser is started: write down how to stop it, on which machine if only that one can, and pin the profile to
-- this machine, and note the directory, where its launcher keeps one: two profiles of a machine cannot have the same.
-- From here on only a proven stop frees the profile.
WITH lease AS MATERIALIZED (
    UPDATE poolsql.leases
    SET browser_state = 'started', browser = %(browser)s::jsonb, browser_machine = %(machine)s::text
    WHERE leases.id = %(lease_id)s AND leases.token = %(token)s AND leases.state = 'held'
    RETURNING leases.id, leases.profile_id
),
pinned AS (
    UPDATE poolsql.profiles
    SET machine = coalesce(profiles.machine, %(machine)s::text),
        directory = coalesce(
            CASE WHEN profiles.machine <> %(machine)s::text THEN profiles.directory END,
            %(directory)s::text,
            profiles.directory
        )
    FROM lease, poolsql.launchers
    WHERE profiles.id = lease.profile_id
      AND launchers.id = profiles.launcher_id
      AND launchers.pins_machine
      AND %(machine)s::text IS NOT NULL
      AND (
          profiles.machine IS NULL
          OR profiles.directory IS NULL
          OR (profiles.machine = %(machine)s::text AND profiles.directory <> %(directory)s::text)
      )
)
SELECT id AS lease_id FROM lease
