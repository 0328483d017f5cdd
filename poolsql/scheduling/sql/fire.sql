-- Fire one instant of a job, whoever else tries. The job's row is locked, and what speaks against the instant stands in
-- that row: whoever comes second finds it fired. An open run of a job that must not overlap is seen by the unique key,
-- also when it was committed after this statement began; then the instant is recorded as skipped, or left for later
-- where all instants are to run.
WITH job AS MATERIALIZED (
    SELECT jobs.id, jobs.name, jobs.pool_id, jobs.overlap, jobs.misfire, jobs.definition
    FROM poolsql.jobs
    WHERE jobs.id = %(job_id)s
      AND jobs.fired_through < %(instant)s
      AND %(instant)s <= clock_timestamp()
      AND jobs.schedule = %(schedule)s::jsonb
      AND jobs.paused_at IS NULL
      AND jobs.removed_at IS NULL
    FOR NO KEY UPDATE
), fired AS (
    INSERT INTO poolsql.runs (name, pool_id, job_id, instant, state, exclusive, definition, created_at)
    SELECT job.name, job.pool_id, job.id, %(instant)s, 'due', NOT job.overlap, job.definition, clock_timestamp()
    FROM job
    ON CONFLICT DO NOTHING
    RETURNING runs.id
), skipped AS (
    INSERT INTO poolsql.runs (name, pool_id, job_id, instant, state, detail, created_at, ended_at)
    SELECT job.name, job.pool_id, job.id, %(instant)s, 'skipped', 'the run before was still open', clock_timestamp(),
        clock_timestamp()
    FROM job
    WHERE job.misfire = 'latest' AND NOT EXISTS (SELECT FROM fired)
    ON CONFLICT DO NOTHING
    RETURNING runs.id
)
UPDATE poolsql.jobs
SET fired_through = %(instant)s
FROM job
WHERE jobs.id = job.id
  AND (EXISTS (SELECT FROM fired) OR EXISTS (SELECT FROM skipped))
RETURNING (SELECT id FROM fired) AS run_id, (SELECT id FROM skipped) AS skipped_id
