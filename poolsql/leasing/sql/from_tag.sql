-- Look through the profiles that carry a tag that few have. Goes on in picked.sql. Out of an array, because the planner
-- takes the number of those that carry any tag for this one's, and would walk the whole pool where all carry another.
picked AS MATERIALIZED (
    SELECT profiles.id, profiles.available_at, launchers.name AS launcher
    FROM unnest(ARRAY(
        SELECT profile_tags.profile_id FROM poolsql.profile_tags WHERE profile_tags.tag = %(rare_tag)s
    )) AS tagged (id)
    JOIN poolsql.profiles ON profiles.id = tagged.id
