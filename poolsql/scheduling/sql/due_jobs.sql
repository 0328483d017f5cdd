-- The jobs that fire by themselves, with the database's time: daemons' clocks differ.
SELECT jobs.id, jobs.name, jobs.schedule, jobs.misfire, jobs.misfire_grace, jobs.fired_through, jobs.created_at,
    clock_timestamp() AS now
FROM poolsql.jobs
WHERE jobs.schedule IS NOT NULL
  AND jobs.paused_at IS NULL
  AND jobs.removed_at IS NULL
