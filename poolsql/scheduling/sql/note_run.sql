-- Why an open run does not get on.
UPDATE poolsql.runs SET detail = %(note)s WHERE runs.id = %(run_id)s AND runs.ended_at IS NULL RETURNING runs.id
