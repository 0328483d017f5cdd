-- How far a run is, and when the next of its waiting tasks may be tried (by the same conditions as claim_task.sql).
SELECT count(*) FILTER (WHERE tasks.state = 'pending') AS pending,
    count(*) FILTER (WHERE tasks.state = 'running') AS running,
    count(*) FILTER (WHERE tasks.state = 'done') AS done,
    count(*) FILTER (WHERE tasks.state = 'failed') AS failed,
    NOT EXISTS (SELECT FROM poolsql.runs WHERE runs.id = %(run_id)s AND runs.ended_at IS NULL) AS ended,
    extract(epoch FROM min(greatest(
        tasks.not_before,
        hosts.paused_until,
        hosts.next_slot_at - make_interval(secs => %(lead)s::float8),
        cooldowns.until
    )) FILTER (
        WHERE tasks.state = 'pending' AND hosts.stopped_at IS NULL
    ) - clock_timestamp())::float8 AS next_in
FROM poolsql.tasks
LEFT JOIN poolsql.hosts ON hosts.name = tasks.host
LEFT JOIN poolsql.cooldowns ON cooldowns.profile_id = tasks.profile_id AND cooldowns.host = tasks.host
WHERE tasks.run_id = %(run_id)s
