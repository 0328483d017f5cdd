-- Tasks whose worker is gone: the claim is over, or the lease has ended without finishing them. A lease is attached
-- only after it was committed, so a task that this snapshot sees attached has its lease in the snapshot too; one that
-- changed since is left for the next round (changed_at), because the snapshot can't tell about its new lease.
UPDATE poolsql.tasks
SET state = CASE WHEN tasks.tries >= %(most_tries)s THEN 'failed' ELSE 'pending' END,
    outcome = coalesce(attempts.outcome, tasks.outcome),
    detail = coalesce(attempts.detail, tasks.detail),
    lease_id = NULL,
    claimed_until = NULL,
    not_before = clock_timestamp(),
    changed_at = clock_timestamp()
FROM poolsql.tasks AS orphan
LEFT JOIN poolsql.attempts ON attempts.lease_id = orphan.lease_id
WHERE orphan.run_id = %(run_id)s
  AND orphan.state = 'running'
  AND tasks.id = orphan.id
  AND tasks.state = 'running'
  AND tasks.changed_at < statement_timestamp()
  AND (tasks.claimed_until < clock_timestamp() OR tasks.lease_id = attempts.lease_id)
RETURNING tasks.id, tasks.state
