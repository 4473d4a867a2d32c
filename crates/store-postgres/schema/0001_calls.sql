-- The other calls. They take locks in the order that the file of `append` names.

CREATE FUNCTION runwright.claim(
  at bigint, of_stream text, to_holder text, ttl bigint,
  OUT verdict text, OUT t bigint, OUT new_epoch bigint)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET lock_timeout = '3s' AS $$
DECLARE
  s record;
BEGIN
  SELECT id, tenant, concurrency_key, holder, expires_at INTO s
    FROM runwright.streams WHERE name = of_stream FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    verdict := 'missing';
    RETURN;
  END IF;
  IF s.concurrency_key IS NOT NULL THEN
    PERFORM pg_advisory_xact_lock(1381446469, runwright.lock_of(s.tenant, s.concurrency_key));
  END IF;
  t := runwright.clock(at);
  IF s.holder <> to_holder AND s.expires_at > t
    OR runwright.key_in_use(s.tenant, s.concurrency_key, s.id, t)
  THEN
    verdict := 'held';
    RETURN;
  END IF;
  UPDATE runwright.streams SET epoch = epoch + 1, holder = to_holder, expires_at = t + ttl
    WHERE id = s.id RETURNING epoch INTO new_epoch;
  verdict := 'done';
END
$$;

CREATE FUNCTION runwright.renew(
  at bigint, of_streams text[], of_epochs bigint[], ttl bigint,
  OUT t bigint, OUT verdicts text[])
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET lock_timeout = '3s' AS $$
DECLARE
  l record;
BEGIN
  PERFORM 1 FROM runwright.streams WHERE name = ANY (of_streams) ORDER BY name FOR NO KEY UPDATE;
  t := runwright.clock(at);
  PERFORM pg_advisory_xact_lock(1381446469, number) FROM (
    SELECT DISTINCT runwright.lock_of(tenant, concurrency_key) AS number FROM runwright.streams
    WHERE name = ANY (of_streams) AND concurrency_key IS NOT NULL ORDER BY number) AS n;
  t := runwright.clock(at);
  FOR l IN SELECT * FROM unnest(of_streams, of_epochs) AS l(name, epoch) LOOP
    UPDATE runwright.streams AS s SET expires_at = t + ttl
      WHERE s.name = l.name AND s.epoch = l.epoch AND s.holder IS NOT NULL AND (s.expires_at > t
        OR NOT runwright.key_in_use(s.tenant, s.concurrency_key, s.id, t));
    verdicts := verdicts || CASE
      WHEN FOUND THEN 'done'
      WHEN EXISTS (SELECT FROM runwright.streams WHERE name = l.name) THEN 'fenced'
      ELSE 'missing' END;
  END LOOP;
END
$$;

-- The due streams in their order. Their rows are read one by one until there are enough. Sorts and
-- bitmaps are off: the planner takes each part of the union to be read as a whole, and would then sort
-- a long queue.
CREATE FUNCTION runwright.due(at bigint, of_queue text, how_many bigint)
RETURNS TABLE (name text, tenant text, t bigint, next_at bigint)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_sort = off SET enable_bitmapscan = off
  SET jit = off SET lock_timeout = '3s' SET cursor_tuple_fraction = 0.0001 AS $$
#variable_conflict use_column
DECLARE
  keys text[] := '{}';
  found_rows bigint := 0;
  -- Each part in its order: only then are the parts merged instead of sorted as a whole.
  waiting CURSOR FOR
    SELECT * FROM (
      (SELECT q.name, q.tenant, q.concurrency_key, q.priority, q.wake
        FROM runwright.streams AS q WHERE q.holder IS NULL AND q.runnable AND q.queue = of_queue
        ORDER BY q.priority DESC, q.wake, q.name)
      UNION ALL
      (SELECT q.name, q.tenant, q.concurrency_key, q.priority, q.wake
        FROM runwright.streams AS q
        WHERE q.holder IS NULL AND NOT q.runnable AND q.wake IS NOT NULL AND q.queue = of_queue
          AND q.wake <= t
        ORDER BY q.priority DESC, q.wake, q.name)
      UNION ALL
      (SELECT q.name, q.tenant, q.concurrency_key, q.priority, q.wake
        FROM runwright.streams AS q
        WHERE q.holder IS NOT NULL AND q.queue = of_queue AND q.expires_at <= t
          AND (q.runnable OR q.wake <= t)
        ORDER BY q.priority DESC, q.wake, q.name)) AS w
    ORDER BY w.priority DESC, w.wake, w.name;
BEGIN
  t := runwright.clock(at);
  FOR s IN waiting LOOP
    EXIT WHEN found_rows >= how_many;
    IF s.concurrency_key IS NOT NULL THEN
      CONTINUE WHEN s.tenant || chr(1) || s.concurrency_key = ANY (keys);
      keys := keys || (s.tenant || chr(1) || s.concurrency_key);
      CONTINUE WHEN runwright.key_in_use(s.tenant, s.concurrency_key, 0, t);
    END IF;
    name := s.name;
    tenant := s.tenant;
    found_rows := found_rows + 1;
    RETURN NEXT;
  END LOOP;
  -- The last row has no stream.
  name := NULL;
  tenant := NULL;
  SELECT min(moment) INTO next_at FROM (
    SELECT min(q.wake) FROM runwright.streams AS q
    WHERE q.holder IS NULL AND NOT q.runnable AND q.wake IS NOT NULL AND q.queue = of_queue
      AND q.wake > t
    UNION ALL
    SELECT min(CASE WHEN q.expires_at > t THEN q.expires_at ELSE q.wake END)
    FROM runwright.streams AS q
    WHERE q.holder IS NOT NULL AND q.queue = of_queue AND q.wake IS NOT NULL
      AND (q.expires_at > t OR NOT q.runnable AND q.wake > t)
    UNION ALL
    SELECT min(q.expires_at) FROM runwright.streams AS q
    WHERE q.holder IS NOT NULL AND q.concurrency_key IS NOT NULL AND q.expires_at > t) AS n(moment);
  RETURN NEXT;
END
$$;

-- Replaces the key that the caller saw; false where another row is there now.
CREATE FUNCTION runwright.put_key(
  at bigint, of_tenant text, of_namespace text, of_key text, new_digest bytea, new_answer bytea,
  new_expires_at bigint, seen boolean, seen_stream text, seen_digest bytea, seen_answer bytea,
  seen_expires_at bigint)
RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET lock_timeout = '3s' AS $$
DECLARE
  k record;
BEGIN
  PERFORM pg_advisory_xact_lock(1381446469, runwright.lock_of(of_tenant, of_namespace, of_key));
  SELECT s.name, o.digest, o.answer, o.expires_at INTO k
    FROM runwright.keys AS o LEFT JOIN runwright.streams AS s ON s.id = o.stream
    WHERE o.tenant = of_tenant AND o.namespace = of_namespace AND o.key = of_key
      AND (o.expires_at IS NULL OR o.expires_at > runwright.clock(at));
  IF FOUND <> seen OR (k.name, k.digest, k.answer, k.expires_at)
    IS DISTINCT FROM (seen_stream, seen_digest, seen_answer, seen_expires_at)
  THEN
    RETURN false;
  END IF;
  INSERT INTO runwright.keys
    VALUES (of_tenant, of_namespace, of_key, NULL, new_digest, new_answer, new_expires_at)
    ON CONFLICT (tenant, namespace, key) DO UPDATE SET stream = NULL, digest = excluded.digest,
      answer = excluded.answer, expires_at = excluded.expires_at;
  RETURN true;
END
$$;

-- Collects unreferenced blobs whose grace is over, and returns how many.
CREATE FUNCTION runwright.collect(at bigint, grace bigint, how_many bigint)
RETURNS bigint
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET lock_timeout = '3s' AS $$
DECLARE
  collected bigint;
BEGIN
  DELETE FROM runwright.blobs WHERE id IN (
    SELECT id FROM runwright.blobs WHERE refs = 0 AND put_at <= runwright.clock(at) - grace
    LIMIT how_many FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS collected = ROW_COUNT;
  RETURN collected;
END
$$;

CREATE FUNCTION runwright.purge(at bigint, of_stream text, why text)
RETURNS text
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET lock_timeout = '3s' AS $$
DECLARE
  s record;
  t bigint;
  released bigint[];
BEGIN
  SELECT * INTO s FROM runwright.streams WHERE name = of_stream FOR UPDATE;
  IF NOT FOUND THEN
    RETURN CASE WHEN EXISTS (SELECT FROM runwright.tombstones WHERE name = of_stream)
      THEN 'done' ELSE 'missing' END;
  END IF;
  t := runwright.clock(at);
  IF s.holder IS NOT NULL AND s.expires_at > t THEN
    RETURN 'held';
  END IF;
  INSERT INTO runwright.tombstones VALUES (s.name, s.tenant, s.next_seq, s.chain, why, t);
  -- A long log takes long; others can append meanwhile.
  DELETE FROM runwright.events WHERE stream = s.id;
  PERFORM runwright.lock_feed();
  UPDATE runwright.keys SET stream = NULL
    WHERE stream = s.id AND digest IS NOT NULL AND expires_at IS NOT NULL;
  WITH dropped AS (DELETE FROM runwright.blob_refs WHERE stream = s.id RETURNING blob),
    counted AS (
      UPDATE runwright.blobs AS b SET refs = b.refs - d.times
        FROM (SELECT blob, count(*) AS times FROM dropped GROUP BY blob) AS d WHERE b.id = d.blob
        RETURNING b.id)
  SELECT array_agg(id) INTO released FROM counted;
  DELETE FROM runwright.blobs
    WHERE id = ANY (released) AND refs = 0 AND put_at = -9223372036854775808;
  -- The other rows of the stream go by their foreign keys.
  DELETE FROM runwright.streams WHERE id = s.id;
  RETURN 'done';
END
$$;
