-- Hot tables (they alone have storage options) with many dead rows, and whether this user may vacuum them.
SELECT pg_class.relname AS name,
    pg_has_role(pg_class.relowner, 'USAGE') OR (
        current_setting('server_version_num')::int >= 170000
        -- The name of this right is unknown to older servers, so it must not be looked at there.
        AND has_table_privilege(pg_class.oid, CASE
            WHEN current_setting('server_version_num')::int >= 170000 THEN 'MAINTAIN' ELSE 'SELECT' END)
    ) AS may
FROM pg_class
WHERE pg_class.relnamespace = 'poolsql'::regnamespace
  AND pg_class.relkind = 'r'
  AND pg_class.reloptions IS NOT NULL
  AND pg_stat_get_dead_tuples(pg_class.oid) >= %(enough)s
ORDER BY pg_class.relname
