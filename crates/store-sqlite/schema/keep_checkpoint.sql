INSERT INTO checkpoints
SELECT id, ?2, ?3, ?4 FROM streams WHERE name = ?1 AND next_seq >= ?2
ON CONFLICT DO UPDATE
SET next_seq = excluded.next_seq, chain = excluded.chain, state = excluded.state
WHERE excluded.next_seq >= next_seq
