-- How many seats a worker has now.
UPDATE poolsql.workers SET seats = %(seats)s WHERE workers.id = %(worker_id)s RETURNING workers.id
