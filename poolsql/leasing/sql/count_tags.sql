-- How many profiles carry each of these tags, counted up to a limit.
SELECT asked.tag, (
        SELECT count(*)
        FROM (SELECT FROM poolsql.profile_tags WHERE profile_tags.tag = asked.tag LIMIT %(limit)s) AS carried
    ) AS number
FROM unnest(%(tags)s::text[]) AS asked (tag)
