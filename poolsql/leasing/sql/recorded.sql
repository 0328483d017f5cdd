-- The end of record_visit.sql.
SELECT id AS visit_id FROM visited
