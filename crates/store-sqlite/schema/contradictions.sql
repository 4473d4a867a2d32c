-- the log has a gap or another length than its stream says
SELECT name FROM streams WHERE next_seq <> (SELECT count(*) FROM events WHERE stream = id)
  OR next_seq - 1 IS NOT (SELECT max(seq) FROM events WHERE stream = id)
  OR 0 IS NOT (SELECT min(seq) FROM events WHERE stream = id);
-- the header is missing
SELECT name FROM streams WHERE id NOT IN (SELECT stream FROM headers);
-- events lie neither in a row nor in a pack, or in both
SELECT name FROM streams JOIN events ON stream = id
  WHERE (content IS NULL) <> (seq < packed_to) GROUP BY id;
-- packs overlap or are missing
SELECT name FROM streams WHERE packed_to <>
  ifnull((SELECT sum(next_seq - first_seq) FROM packs WHERE stream = id), 0);
-- the earliest timer is not the one on record
SELECT name FROM streams WHERE timer IS NOT (SELECT min(due) FROM timers WHERE stream = id);
-- the list differs from the index row
SELECT streams.name FROM streams LEFT JOIN listed ON stream = id WHERE CASE
  WHEN json_valid(index_row) THEN kind IS NOT index_row ->> 'kind'
    OR subject IS NOT index_row ->> 'subject' OR status IS NOT index_row ->> 'status'
    OR workspace IS NOT index_row ->> 'workspace'
    OR listed.tenant IS NOT streams.tenant OR listed.created_at IS NOT streams.created_at END;
-- it is purged and still there
SELECT name FROM streams JOIN tombstones USING (name);
-- events are left of a stream that is not there
SELECT NULL FROM events
  WHERE stream IS NOT NULL AND stream NOT IN (SELECT id FROM streams) GROUP BY stream;
-- a row belongs to one that is not there
SELECT NULL FROM pragma_foreign_key_check;
-- a blob is without bytes, or referred to more or less often than it counts
SELECT NULL FROM blobs WHERE id NOT IN (SELECT blob FROM blob_bytes)
  OR refs <> (SELECT count(*) FROM blob_refs WHERE blob = blobs.id);
