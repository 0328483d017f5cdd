-- Say why a reclaiming lease is not ended yet.
UPDATE poolsql.leases
SET reclaim_note = %(note)s
WHERE leases.id = %(lease_id)s AND leases.state = 'reclaiming'
