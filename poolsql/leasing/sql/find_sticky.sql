-- The profile that served a key last, unless it has left the pool.
SELECT profiles.id AS profile_id, profiles.key AS profile_key, profiles.state, profiles.state_reason,
    launchers.name AS launcher
FROM poolsql.sticky_keys
JOIN poolsql.profiles ON profiles.id = sticky_keys.profile_id AND profiles.pool_id = sticky_keys.pool_id
JOIN poolsql.launchers ON launchers.id = profiles.launcher_id
WHERE sticky_keys.pool_id = %(pool_id)s AND sticky_keys.key = %(key)s
