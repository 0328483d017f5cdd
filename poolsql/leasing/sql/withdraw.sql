-- Leave the line. Nothing is returned when the ticket is gone: its request may have got a lease.
DELETE FROM poolsql.waiters WHERE waiters.request_id = %(request_id)s RETURNING waiters.id
