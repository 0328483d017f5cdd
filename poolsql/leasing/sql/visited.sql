-- Write the visits of visit_now, which every statement that writes any begins with.
visited AS (
    INSERT INTO poolsql.visits (
        lease_id, profile_id, pool_id, launcher_id, proxy_id, worker_id, task_id, task, host, url, status, outcome,
        blames, detail, started_at, ended_at, bytes, retry_after, evidence
    )
    SELECT visit.lease_id, visit.profile_id, visit.pool_id, profiles.launcher_id, profiles.proxy_id, visit.worker_id,
        visit.task_id, visit.task, visit.host, visit.url, visit.status, visit.outcome, outcomes.blames, visit.detail,
        visit.started_at, clock_timestamp(), visit.bytes, visit.retry_after, visit.evidence
    FROM visit_now AS visit
    JOIN poolsql.profiles ON profiles.id = visit.profile_id
    JOIN poolsql.outcomes ON outcomes.outcome = visit.outcome
    RETURNING id, lease_id
),
