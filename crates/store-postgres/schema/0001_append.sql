-- Order of locks, in every function: rows of streams by name, locks of keys by number, the lock of
-- the feed, all other rows. Functions that cannot keep it skip locked rows.

-- The time that counts: the database's, or that of a test.
CREATE FUNCTION runwright.clock(at bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(at, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
$$;

-- The number of the lock of a unique key or a concurrency key.
CREATE FUNCTION runwright.lock_of(VARIADIC parts text[]) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
  SELECT hashtext(array_to_string(parts, chr(1)))
$$;

-- Makes positions follow the order of commits: a transaction keeps this lock until its commit.
CREATE FUNCTION runwright.lock_feed() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(1381446468, 1);
END
$$;

-- Whether a live lease of the tenant, on another stream, has a concurrency key.
CREATE FUNCTION runwright.key_in_use(of_tenant text, of_key text, except_stream bigint, t bigint)
RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM runwright.streams
    WHERE holder IS NOT NULL AND concurrency_key IS NOT NULL AND tenant = of_tenant
      AND concurrency_key = of_key AND expires_at > t AND id <> except_stream)
$$;

-- Appends a group of batches. `nr` in the arrays is the number of a batch, from 1. The caller makes
-- groups in which no two batches have the same stream, claim the same key or take leases with the
-- same concurrency key. The verdict of a batch is done, locked, fenced, sequence, held, missing, or
-- the number of the key claim that was refused. A batch is `locked` where another transaction keeps
-- its stream, a key or a blob locked; only with `waits` are such locks waited for. The procedure
-- commits by itself, so that no client can keep the lock of the feed by falling silent.
CREATE PROCEDURE runwright.append(
  at bigint, origin bigint, waits boolean,
  a_name text[], a_tenant text[], a_first_seq bigint[], a_next_seq bigint[], a_chain bytea[],
  a_header text[], a_guard bigint[], a_holder text[], a_ttl bigint[], a_release boolean[],
  a_settled boolean[], a_runnable boolean[], a_queue text[], a_priority integer[],
  a_concurrency text[], a_parent text[], a_created_at bigint[], a_updated_at bigint[],
  a_kind text[], a_workspace text[], a_subject text[], a_status text[], a_tags text[],
  a_index_row text[],
  e_nr bigint[], e_seq bigint[], e_chain bytea[], e_content bytea[], e_digest bytea[],
  t_nr bigint[], t_name text[], t_due bigint[],
  k_nr bigint[], k_tenant text[], k_namespace text[], k_key text[], k_digest bytea[],
  k_answer bytea[], k_expires_at bigint[], k_doubled_until bigint[],
  m_nr bigint[], m_id text[], m_target text[], m_command bytea[],
  r_nr bigint[], r_tenant text[], r_digest bytea[], r_is_new boolean[],
  x_nr bigint[], x_tenant text[], x_digest bytea[], x_size bigint[], x_stored bytea[],
  INOUT t bigint, INOUT verdicts text[], INOUT positions bigint[])
LANGUAGE plpgsql AS $$
DECLARE
  ids bigint[];
  streams text;
  free_streams text[];
  locked_keys integer[];
  free_blobs bigint[];
BEGIN
  PERFORM set_config('lock_timeout', '3s', true), set_config('jit', 'off', true),
    set_config('enable_seqscan', 'off', true), set_config('runwright.scope', 'all', true);
  -- It may have been changed since the session began.
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  IF waits THEN
    PERFORM 1 FROM runwright.streams WHERE name = ANY (a_name) ORDER BY name FOR NO KEY UPDATE;
  END IF;
  SELECT array_agg(name) INTO free_streams FROM (
    SELECT name FROM runwright.streams WHERE name = ANY (a_name)
    ORDER BY name FOR NO KEY UPDATE SKIP LOCKED) AS s;
  SELECT array_agg(number) INTO locked_keys FROM (
    SELECT DISTINCT number FROM (
      SELECT runwright.lock_of(k.tenant, k.namespace, k.key)
      FROM unnest(k_tenant, k_namespace, k_key) AS k(tenant, namespace, key)
      UNION ALL SELECT runwright.lock_of(a.tenant, a.concurrency)
      FROM unnest(a_tenant, a_concurrency, a_holder) AS a(tenant, concurrency, holder)
      WHERE a.concurrency IS NOT NULL AND a.holder IS NOT NULL) AS n(number)
    ORDER BY number) AS n(number)
    WHERE NOT CASE WHEN waits THEN pg_advisory_xact_lock(1381446469, number) IS NOT NULL
      ELSE pg_try_advisory_xact_lock(1381446469, number) END;
  IF waits AND cardinality(r_nr) > 0 THEN
    PERFORM 1 FROM runwright.blobs AS b
      WHERE (b.tenant, b.digest) IN (SELECT * FROM unnest(r_tenant, r_digest))
      ORDER BY b.id FOR NO KEY UPDATE;
  END IF;
  PERFORM runwright.lock_feed();
  t := runwright.clock(at);
  IF cardinality(r_nr) > 0 THEN
    SELECT array_agg(id) INTO free_blobs FROM (
      SELECT b.id FROM runwright.blobs AS b
      WHERE (b.tenant, b.digest) IN (SELECT * FROM unnest(r_tenant, r_digest))
      ORDER BY b.id FOR NO KEY UPDATE SKIP LOCKED) AS b;
  END IF;

  SELECT array_agg(verdict ORDER BY nr) INTO verdicts FROM (
    SELECT a.nr, CASE
      WHEN NOT waits AND (s.id IS NOT NULL AND s.name <> ALL (coalesce(free_streams, '{}'))
        OR a.holder IS NOT NULL AND runwright.lock_of(a.tenant, a.concurrency) = ANY (locked_keys)
        OR EXISTS (SELECT FROM unnest(k_nr, k_tenant, k_namespace, k_key)
            AS k(nr, tenant, namespace, key)
          WHERE k.nr = a.nr
            AND runwright.lock_of(k.tenant, k.namespace, k.key) = ANY (locked_keys))
        OR EXISTS (SELECT FROM unnest(r_nr, r_digest) AS r(nr, digest)
          JOIN runwright.blobs AS b ON b.tenant = a.tenant AND b.digest = r.digest
          WHERE r.nr = a.nr AND b.id <> ALL (coalesce(free_blobs, '{}')))) THEN 'locked'
      WHEN a.guard IS NOT NULL AND (s.holder IS NULL OR s.epoch <> a.guard) THEN 'fenced'
      WHEN a.first_seq <> coalesce(s.next_seq, 0) OR s.id IS NULL
        AND EXISTS (SELECT FROM runwright.tombstones AS d WHERE d.name = a.name) THEN 'sequence'
      WHEN a.holder IS NOT NULL AND runwright.key_in_use(a.tenant, a.concurrency, 0, t) THEN 'held'
      WHEN k.refused IS NOT NULL THEN k.refused::text
      WHEN EXISTS (SELECT FROM unnest(r_nr, r_digest, r_is_new) AS r(nr, digest, is_new)
        WHERE r.nr = a.nr AND NOT r.is_new AND NOT EXISTS (
          SELECT FROM runwright.blobs AS b WHERE b.tenant = a.tenant AND b.digest = r.digest))
        THEN 'missing'
      ELSE 'done' END AS verdict
    FROM unnest(a_name, a_tenant, a_first_seq, a_guard, a_holder, a_concurrency) WITH ORDINALITY
      AS a(name, tenant, first_seq, guard, holder, concurrency, nr)
    LEFT JOIN runwright.streams AS s ON s.name = a.name
    LEFT JOIN (
      SELECT k.nr, min(k.place) AS refused
      FROM unnest(k_nr, k_tenant, k_namespace, k_key, k_doubled_until) WITH ORDINALITY
        AS k(nr, tenant, namespace, key, doubled_until, place)
      WHERE k.doubled_until > t OR EXISTS (SELECT FROM runwright.keys AS o
        WHERE o.tenant = k.tenant AND o.namespace = k.namespace AND o.key = k.key
          AND (o.expires_at IS NULL OR o.expires_at > t))
      GROUP BY k.nr) AS k ON k.nr = a.nr) AS checked;

  UPDATE runwright.streams AS s
    SET next_seq = a.next_seq, chain = a.chain, settled = a.settled, runnable = a.runnable,
      queue = a.queue, priority = a.priority, concurrency_key = a.concurrency, parent = a.parent,
      created_at = a.created_at, updated_at = a.updated_at, kind = a.kind,
      workspace = a.workspace, subject = a.subject, status = a.status,
      tags = ARRAY(SELECT json_array_elements_text(a.tags::json)), index_row = a.index_row,
      holder = CASE WHEN a.release THEN NULL ELSE s.holder END,
      expires_at = CASE WHEN a.release THEN NULL ELSE s.expires_at END
    FROM unnest(verdicts, a_name, a_first_seq, a_next_seq, a_chain, a_release, a_settled,
      a_runnable, a_queue, a_priority, a_concurrency, a_parent, a_created_at, a_updated_at, a_kind,
      a_workspace, a_subject, a_status, a_tags, a_index_row)
      AS a(verdict, name, first_seq, next_seq, chain, release, settled, runnable, queue, priority,
        concurrency, parent, created_at, updated_at, kind, workspace, subject, status, tags,
        index_row)
    WHERE a.verdict = 'done' AND a.first_seq > 0 AND s.name = a.name;
  INSERT INTO runwright.streams (name, tenant, next_seq, chain, epoch, holder, expires_at, settled,
      runnable, queue, priority, concurrency_key, parent, created_at, updated_at, kind, workspace,
      subject, status, tags, index_row)
    SELECT a.name, a.tenant, a.next_seq, a.chain,
      CASE WHEN a.holder IS NULL THEN 0 ELSE 1 END, a.holder, t + a.ttl, a.settled, a.runnable,
      a.queue, a.priority, a.concurrency, a.parent, a.created_at, a.updated_at, a.kind,
      a.workspace, a.subject, a.status, ARRAY(SELECT json_array_elements_text(a.tags::json)),
      a.index_row
    FROM unnest(verdicts, a_name, a_tenant, a_first_seq, a_next_seq, a_chain, a_holder, a_ttl,
      a_settled, a_runnable, a_queue, a_priority, a_concurrency, a_parent, a_created_at,
      a_updated_at, a_kind, a_workspace, a_subject, a_status, a_tags, a_index_row)
      AS a(verdict, name, tenant, first_seq, next_seq, chain, holder, ttl, settled, runnable, queue,
        priority, concurrency, parent, created_at, updated_at, kind, workspace, subject, status,
        tags, index_row)
    WHERE a.verdict = 'done' AND a.first_seq = 0;
  -- From here on the id of a refused batch is NULL.
  SELECT array_agg(s.id ORDER BY a.nr) INTO ids
    FROM unnest(verdicts, a_name) WITH ORDINALITY AS a(verdict, name, nr)
    LEFT JOIN runwright.streams AS s ON s.name = a.name AND a.verdict = 'done';
  INSERT INTO runwright.headers
    SELECT a.id, a.header FROM unnest(ids, a_header) AS a(id, header)
    WHERE a.id IS NOT NULL AND a.header IS NOT NULL;

  IF cardinality(x_nr) > 0 THEN
    -- A blob that waits for no reference has the least time: it goes with its last reference.
    INSERT INTO runwright.blobs AS b (tenant, digest, size, put_at, stored)
      SELECT DISTINCT ON (x.tenant, x.digest)
        x.tenant, x.digest, x.size, -9223372036854775808, x.stored
      FROM unnest(x_nr, x_tenant, x_digest, x_size, x_stored) AS x(nr, tenant, digest, size, stored)
      JOIN unnest(ids) WITH ORDINALITY AS a(id, nr) ON a.nr = x.nr AND a.id IS NOT NULL
      ORDER BY x.tenant, x.digest
      ON CONFLICT (tenant, digest) DO UPDATE SET put_at = b.put_at;
  END IF;
  IF cardinality(r_nr) > 0 THEN
    WITH counted AS (
      INSERT INTO runwright.blob_refs
        SELECT a.id, b.id FROM unnest(r_nr, r_tenant, r_digest) AS r(nr, tenant, digest)
        JOIN unnest(ids) WITH ORDINALITY AS a(id, nr) ON a.nr = r.nr AND a.id IS NOT NULL
        JOIN runwright.blobs AS b ON b.tenant = r.tenant AND b.digest = r.digest
      RETURNING blob)
    UPDATE runwright.blobs AS b SET refs = b.refs + c.times, put_at = -9223372036854775808
      FROM (SELECT blob, count(*) AS times FROM counted GROUP BY blob) AS c WHERE b.id = c.blob;
  END IF;
  WITH written AS (
    INSERT INTO runwright.events (position, stream, seq, blob, chain, content)
      SELECT nextval('runwright.positions'), e.stream, e.seq, e.blob, e.chain, e.content FROM (
        SELECT a.id AS stream, e.seq, b.id AS blob, e.chain, e.content
        FROM unnest(e_nr, e_seq, e_chain, e_content, e_digest) WITH ORDINALITY
          AS e(nr, seq, chain, content, digest, place)
        JOIN unnest(ids, a_tenant) WITH ORDINALITY AS a(id, tenant, nr)
          ON a.nr = e.nr AND a.id IS NOT NULL
        LEFT JOIN runwright.blobs AS b ON b.tenant = a.tenant AND b.digest = e.digest
        ORDER BY e.place) AS e
    RETURNING stream, position)
  SELECT array_agg(w.position ORDER BY a.nr) INTO positions
    FROM unnest(ids) WITH ORDINALITY AS a(id, nr)
    LEFT JOIN (SELECT stream, max(position) AS position FROM written GROUP BY stream) AS w
      ON w.stream = a.id;

  IF cardinality(t_nr) > 0 THEN
    DELETE FROM runwright.timers AS o
      USING unnest(t_nr, t_name, t_due) AS n(nr, name, due), unnest(ids) WITH ORDINALITY AS a(id, nr)
      WHERE a.nr = n.nr AND n.due IS NULL AND o.stream = a.id AND o.name = n.name;
    INSERT INTO runwright.timers
      SELECT a.id, n.name, n.due FROM unnest(t_nr, t_name, t_due) AS n(nr, name, due)
      JOIN unnest(ids) WITH ORDINALITY AS a(id, nr) ON a.nr = n.nr AND a.id IS NOT NULL
      WHERE n.due IS NOT NULL
      ON CONFLICT (stream, name) DO UPDATE SET due = excluded.due;
    UPDATE runwright.streams AS s
      SET timer = (SELECT min(o.due) FROM runwright.timers AS o WHERE o.stream = s.id)
      WHERE s.id IN (SELECT a.id FROM unnest(t_nr) AS n(nr)
        JOIN unnest(ids) WITH ORDINALITY AS a(id, nr) ON a.nr = n.nr);
  END IF;
  IF cardinality(k_nr) > 0 THEN
    INSERT INTO runwright.keys
      SELECT DISTINCT ON (k.tenant, k.namespace, k.key)
        k.tenant, k.namespace, k.key, a.id, k.digest, k.answer, k.expires_at
      FROM unnest(k_nr, k_tenant, k_namespace, k_key, k_digest, k_answer, k_expires_at)
        WITH ORDINALITY AS k(nr, tenant, namespace, key, digest, answer, expires_at, place)
      JOIN unnest(ids) WITH ORDINALITY AS a(id, nr) ON a.nr = k.nr AND a.id IS NOT NULL
      ORDER BY k.tenant, k.namespace, k.key, k.place DESC
      ON CONFLICT (tenant, namespace, key) DO UPDATE SET stream = excluded.stream,
        digest = excluded.digest, answer = excluded.answer, expires_at = excluded.expires_at;
  END IF;
  IF cardinality(m_nr) > 0 THEN
    INSERT INTO runwright.outbox (source, message, target, command)
      SELECT a.id, m.id, m.target, m.command
      FROM unnest(m_nr, m_id, m_target, m_command) WITH ORDINALITY
        AS m(nr, id, target, command, place)
      JOIN unnest(ids) WITH ORDINALITY AS a(id, nr) ON a.nr = m.nr AND a.id IS NOT NULL
      ORDER BY m.place;
  END IF;

  SELECT json_agg(json_build_array(a.name, a.next_seq))::text INTO streams
    FROM unnest(ids, a_name, a_next_seq) AS a(id, name, next_seq) WHERE a.id IS NOT NULL;
  IF streams IS NOT NULL THEN
    -- A longer text than this cannot be sent.
    PERFORM pg_notify('runwright', json_build_object('origin', origin,
      'queue', EXISTS (SELECT FROM runwright.streams AS s
        WHERE s.id = ANY (ids) AND s.holder IS NULL AND s.wake IS NOT NULL),
      'outbox', cardinality(m_nr) > 0,
      'streams', CASE WHEN octet_length(streams) < 7500 THEN streams ELSE '[]' END::json)::text);
  END IF;
  COMMIT;
END
$$;
