-- Look through the free profiles of a pool, longest available first. Goes on in picked.sql.
picked AS MATERIALIZED (
    SELECT profiles.id, launchers.name AS launcher
    FROM poolsql.profiles
