-- Record a report that was refused, so that a lost result can be found.
INSERT INTO poolsql.refused_reports (lease_id, kind, worker_id, outcome, detail)
VALUES (%(lease_id)s, %(kind)s, %(worker_id)s, %(outcome)s, %(detail)s)
