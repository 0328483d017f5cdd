-- Look through the free profiles of a pool, longest available first. Goes on in picked.sql.
picked AS MATERIALIZED (
    SELECT profiles.id, profiles.available_at, launchers.name AS launcher
    FROM poolsql.profiles
