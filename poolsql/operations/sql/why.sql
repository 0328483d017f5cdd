-- Everything that the answer to "why is this profile not offered" may need. Follows judged.sql.
looked_at AS (
    SELECT profiles.*, judged.reason
    FROM judged
    JOIN poolsql.profiles ON profiles.id = judged.profile_id
    WHERE judged.profile_id = %(profile_id)s
)
SELECT looked_at.reason,
    clock_timestamp() AS now,
    looked_at.state_reason, looked_at.state_changed_at, looked_at.state_changed_by, looked_at.last_outcome,
    looked_at.needs_person_since IS NOT NULL AS needs_person,
    CASE WHEN looked_at.available_at > clock_timestamp() THEN looked_at.available_at END AS waits_until,
    looked_at.machine AS only_machine, launchers.machines AS only_machines,
    CASE WHEN launchers.breaker_open_until > clock_timestamp() THEN launchers.breaker_open_until END
        AS breaker_open_until,
    launchers.breaker_reason, launchers.name AS launcher,
    pools.name AS pool, pools.paused_at AS pool_paused_at, pools.pause_reason AS pool_pause_reason,
    leases.id AS lease_id, leases.task, leases.worker_id, leases.acquired_at, leases.expires_at,
    leases.browser_machine, leases.reclaim_since, leases.reclaim_tries, leases.reclaim_note, leases.reclaim_detail,
    coalesce(leases.browser_machine, workers.machine) AS worker_machine, workers.pid,
    hosts.paused_until AS host_paused_until, hosts.pause_reason AS host_pause_reason,
    hosts.stopped_at AS host_stopped_at, hosts.stop_reason AS host_stop_reason,
    CASE WHEN cooldowns.until > clock_timestamp() THEN cooldowns.until END AS cooling_until,
    cooldowns.outcome AS cooling_after
FROM looked_at
JOIN poolsql.launchers ON launchers.id = looked_at.launcher_id
JOIN poolsql.pools ON pools.id = looked_at.pool_id
LEFT JOIN poolsql.leases ON leases.profile_id = looked_at.id
LEFT JOIN poolsql.workers ON workers.id = leases.worker_id
LEFT JOIN poolsql.hosts ON hosts.name = %(host)s::text
LEFT JOIN poolsql.cooldowns ON cooldowns.profile_id = looked_at.id AND cooldowns.host = %(host)s::text
