-- Look at one profile alone. Goes on in picked.sql.
picked AS MATERIALIZED (
    SELECT profiles.id, profiles.available_at, launchers.name AS launcher
    FROM (SELECT %(profile_id)s::bigint AS id) AS named
    JOIN poolsql.profiles ON profiles.id = named.id
