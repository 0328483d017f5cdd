-- Look through the profiles that carry a tag that few have. Goes on in picked.sql.
picked AS MATERIALIZED (
    SELECT profiles.id, launchers.name AS launcher
    FROM poolsql.profile_tags
    JOIN poolsql.profiles ON profiles.id = profile_tags.profile_id AND profile_tags.tag = %(rare_tag)s
