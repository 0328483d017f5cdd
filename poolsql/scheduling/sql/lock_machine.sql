-- The workers of a machine take their seats one after the other.
SELECT workers.id
FROM poolsql.workers
WHERE workers.machine = %(machine)s AND workers.ended_at IS NULL
ORDER BY workers.id
FOR NO KEY UPDATE
