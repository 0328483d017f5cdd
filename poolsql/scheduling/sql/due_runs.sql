-- Runs that have fired and have no tasks yet; those that were fired by hand are nobody's own. A job that stands in fleet.toml visits only hosts that stand there too.
SELECT runs.id, runs.name, runs.pool_id, runs.definition, coalesce(jobs.declared, false) AS declared
FROM poolsql.runs
LEFT JOIN poolsql.jobs ON jobs.id = runs.job_id
WHERE runs.state = 'due'
  AND runs.ended_at IS NULL
  AND (
      runs.id = ANY (%(own)s::bigint[])
      OR runs.instant IS NULL
      OR runs.created_at < clock_timestamp() - make_interval(secs => %(left_to_others)s::float8)
  )
ORDER BY runs.id
