-- Who serves a key from now on. Where one profile is required, the first one stays as long as it is in the pool.
INSERT INTO poolsql.sticky_keys AS sticky (pool_id, key, profile_id)
VALUES (%(pool_id)s, %(key)s, %(profile_id)s)
ON CONFLICT (pool_id, key) DO UPDATE
SET used_at = clock_timestamp(),
    profile_id = CASE
        WHEN %(required)s AND EXISTS (
            SELECT FROM poolsql.profiles
            WHERE profiles.id = sticky.profile_id AND profiles.pool_id = sticky.pool_id AND profiles.state <> 'retired'
        ) THEN sticky.profile_id
        ELSE excluded.profile_id
    END
RETURNING profile_id
