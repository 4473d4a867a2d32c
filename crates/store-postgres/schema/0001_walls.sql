-- A second wall between tenants, behind the conditions of the queries: a session sees and writes the
-- rows of the tenant that `runwright.tenant` names, and every row while `runwright.scope` is not empty.
-- The store sets the former for a statement of a tenant and the latter for its own work: the feed,
-- timers, claims. Without either, no row is visible, also not to the owner of the tables.
--
-- The form of a policy matters to plans. The planner takes a comparison with `=` of two values that it
-- does not know for rarely true, and then reads the feed as if it returned few rows; it takes one with
-- `<>` for nearly always true. A function hides a subquery whose cost it would add for every row.

-- Whether a stream is of the tenant of this transaction.
CREATE FUNCTION runwright.is_own(stream bigint) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1 AS $$
BEGIN
  RETURN EXISTS (SELECT FROM runwright.streams AS s
    WHERE s.id = stream AND s.tenant = current_setting('runwright.tenant', true));
END
$$;

DO $$
DECLARE
  of record;
BEGIN
  FOR of IN SELECT name, CASE WHEN stream IS NULL
      THEN 'tenant = current_setting(''runwright.tenant'', true)'
      ELSE format('runwright.is_own(%I)', stream) END AS own
    FROM (VALUES ('streams', NULL), ('keys', NULL), ('blobs', NULL), ('tombstones', NULL),
      ('headers', 'stream'), ('events', 'stream'), ('checkpoints', 'stream'), ('timers', 'stream'),
      ('blob_refs', 'stream'), ('outbox', 'source')) AS t(name, stream)
  LOOP
    EXECUTE format('CREATE POLICY wall ON runwright.%I
      USING (current_setting(''runwright.scope'', true) <> '''' OR %s)', of.name, of.own);
    EXECUTE format('ALTER TABLE runwright.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY',
      of.name);
  END LOOP;
END $$;
