-- Browsers that leases of this machine's other processes have started, or may have.
SELECT count(*) AS browsers
FROM poolsql.leases
JOIN poolsql.workers ON workers.id = leases.worker_id
WHERE workers.machine = %(machine)s
  AND workers.id <> %(worker_id)s
  AND leases.browser_state = 'started'
