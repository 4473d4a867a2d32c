-- One row per stream: an append rewrites this row and inserts events, nothing else. The header,
-- which never changes, lies elsewhere, so that the row stays short. The index row is kept whole
-- as JSON; the columns beside it are those that indexes need.
CREATE TABLE IF NOT EXISTS streams (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL,
  next_seq INTEGER NOT NULL, chain BLOB NOT NULL,
  packed_to INTEGER NOT NULL DEFAULT 0,  -- Events below this sequence lie in packs.
  epoch INTEGER NOT NULL DEFAULT 0,      -- Of the newest hold, kept when that is given up.
  holder TEXT, expires_at INTEGER,
  settled INTEGER NOT NULL, runnable INTEGER NOT NULL, queue TEXT NOT NULL,
  priority INTEGER NOT NULL, concurrency_key TEXT, parent TEXT,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, index_row TEXT NOT NULL,
  timer INTEGER,                         -- The earliest row of timers; kept by triggers.
  -- Since when the stream waits for a worker, or from when on it will.
  wake INTEGER AS (
    CASE WHEN runnable THEN min(updated_at, ifnull(timer, updated_at)) ELSE timer END
  ) VIRTUAL
) STRICT;
-- Leaving held streams out keeps this index still while they are driven.
CREATE INDEX IF NOT EXISTS streams_waiting ON streams (queue, priority DESC, runnable, wake, name)
  WHERE holder IS NULL AND wake IS NOT NULL;
CREATE INDEX IF NOT EXISTS streams_held ON streams (queue, expires_at) WHERE holder IS NOT NULL;
CREATE INDEX IF NOT EXISTS streams_exclusive ON streams (tenant, concurrency_key)
  WHERE holder IS NOT NULL AND concurrency_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS streams_listed ON streams (created_at, name);
CREATE INDEX IF NOT EXISTS streams_of_parent ON streams (parent, created_at, name)
  WHERE parent IS NOT NULL;
CREATE INDEX IF NOT EXISTS streams_unpacked ON streams (id) WHERE settled AND packed_to < next_seq;
CREATE TABLE IF NOT EXISTS headers (
  stream INTEGER PRIMARY KEY REFERENCES streams ON DELETE CASCADE, header TEXT NOT NULL
) STRICT;
-- The parts of index rows by which lists are filtered and counted, kept by triggers. Apart from the
-- streams, so that an append that changes none of them rewrites no index.
CREATE TABLE IF NOT EXISTS listed (
  stream INTEGER PRIMARY KEY REFERENCES streams ON DELETE CASCADE,
  tenant TEXT NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL, status TEXT NOT NULL,
  created_at INTEGER NOT NULL, name TEXT NOT NULL, workspace TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS listed_by_kind ON listed (tenant, kind, created_at, name);
CREATE INDEX IF NOT EXISTS listed_by_status ON listed (tenant, kind, status, created_at, name);
CREATE INDEX IF NOT EXISTS listed_by_subject ON listed (tenant, kind, subject, created_at, name);
-- The cost of a list for a workspace does not depend on the rest of its tenant.
CREATE INDEX IF NOT EXISTS listed_of_workspace
  ON listed (tenant, workspace, kind, created_at, name) WHERE workspace IS NOT NULL;
CREATE INDEX IF NOT EXISTS listed_of_workspace_by_status
  ON listed (tenant, workspace, kind, status, created_at, name) WHERE workspace IS NOT NULL;
CREATE TRIGGER IF NOT EXISTS stream_created AFTER INSERT ON streams BEGIN
  INSERT INTO listed VALUES (NEW.id, NEW.tenant, NEW.index_row ->> 'kind',
    NEW.index_row ->> 'subject', NEW.index_row ->> 'status', NEW.created_at, NEW.name,
    NEW.index_row ->> 'workspace');
END;
CREATE TRIGGER IF NOT EXISTS stream_changed AFTER UPDATE OF index_row, created_at ON streams
WHEN NEW.index_row ->> 'status' <> OLD.index_row ->> 'status'
  OR NEW.index_row ->> 'subject' <> OLD.index_row ->> 'subject'
  OR NEW.index_row ->> 'kind' <> OLD.index_row ->> 'kind' OR NEW.created_at <> OLD.created_at
  OR NEW.index_row ->> 'workspace' IS NOT OLD.index_row ->> 'workspace'
BEGIN
  UPDATE listed SET kind = NEW.index_row ->> 'kind', subject = NEW.index_row ->> 'subject',
    status = NEW.index_row ->> 'status', created_at = NEW.created_at,
    workspace = NEW.index_row ->> 'workspace' WHERE stream = NEW.id;
END;

-- In commit order: the row id is the position. A row without a stream keeps the greatest
-- position taken after its event was purged. No foreign key: this is the hot table.
CREATE TABLE IF NOT EXISTS events (
  position INTEGER PRIMARY KEY, stream INTEGER, seq INTEGER,
  chain BLOB, content BLOB               -- Both NULL where the event lies in a pack.
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS events_log ON events (stream, seq);
-- Runs of events of settled streams, between two links of the hash chain.
CREATE TABLE IF NOT EXISTS packs (
  stream INTEGER NOT NULL REFERENCES streams ON DELETE CASCADE,
  first_seq INTEGER NOT NULL, next_seq INTEGER NOT NULL,
  before BLOB NOT NULL, after BLOB NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY (stream, first_seq)
) STRICT;
CREATE TABLE IF NOT EXISTS checkpoints (
  stream INTEGER PRIMARY KEY REFERENCES streams ON DELETE CASCADE,
  next_seq INTEGER NOT NULL, chain BLOB NOT NULL, state BLOB NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS timers (
  stream INTEGER NOT NULL REFERENCES streams ON DELETE CASCADE,
  name TEXT NOT NULL, due INTEGER NOT NULL,
  PRIMARY KEY (stream, name)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS timer_set AFTER INSERT ON timers BEGIN
  UPDATE streams SET timer = (SELECT min(due) FROM timers WHERE stream = NEW.stream)
  WHERE id = NEW.stream;
END;
CREATE TRIGGER IF NOT EXISTS timer_cancelled AFTER DELETE ON timers BEGIN
  UPDATE streams SET timer = (SELECT min(due) FROM timers WHERE stream = OLD.stream)
  WHERE id = OLD.stream;
END;
-- A key may belong to no stream: that of a request whose effects are in several, or in none.
CREATE TABLE IF NOT EXISTS keys (
  tenant TEXT NOT NULL, namespace TEXT NOT NULL, key TEXT NOT NULL,
  stream INTEGER REFERENCES streams ON DELETE CASCADE,
  digest BLOB, answer BLOB, expires_at INTEGER,
  PRIMARY KEY (tenant, namespace, key)
) STRICT;
CREATE INDEX IF NOT EXISTS keys_of_stream ON keys (stream) WHERE stream IS NOT NULL;
CREATE INDEX IF NOT EXISTS keys_expiring ON keys (expires_at) WHERE expires_at IS NOT NULL;
-- AUTOINCREMENT: a place acknowledged twice must not meet a newer message.
CREATE TABLE IF NOT EXISTS outbox (
  place INTEGER PRIMARY KEY AUTOINCREMENT,
  source INTEGER NOT NULL REFERENCES streams ON DELETE CASCADE,
  message TEXT NOT NULL, target TEXT NOT NULL, command BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS outbox_of_source ON outbox (source);

-- Apart from their bytes, so that counting references does not rewrite them.
CREATE TABLE IF NOT EXISTS blobs (
  id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, digest BLOB NOT NULL, size INTEGER NOT NULL,
  refs INTEGER NOT NULL DEFAULT 0,       -- Rows of blob_refs; kept by triggers.
  put_at INTEGER NOT NULL,               -- The last put that no reference followed.
  UNIQUE (tenant, digest)
) STRICT;
CREATE INDEX IF NOT EXISTS blobs_unreferenced ON blobs (put_at) WHERE refs = 0;
CREATE TABLE IF NOT EXISTS blob_bytes (
  blob INTEGER PRIMARY KEY REFERENCES blobs ON DELETE CASCADE, stored BLOB NOT NULL
) STRICT;
-- One row per reference.
CREATE TABLE IF NOT EXISTS blob_refs (
  stream INTEGER NOT NULL REFERENCES streams ON DELETE CASCADE,
  blob INTEGER NOT NULL REFERENCES blobs
) STRICT;
CREATE INDEX IF NOT EXISTS blob_refs_of_stream ON blob_refs (stream);
CREATE INDEX IF NOT EXISTS blob_refs_of_blob ON blob_refs (blob);
CREATE TRIGGER IF NOT EXISTS blob_referred AFTER INSERT ON blob_refs BEGIN
  UPDATE blobs SET refs = refs + 1, put_at = -9223372036854775808 WHERE id = NEW.blob;
END;
CREATE TRIGGER IF NOT EXISTS blob_released AFTER DELETE ON blob_refs BEGIN
  UPDATE blobs SET refs = refs - 1 WHERE id = OLD.blob;
  DELETE FROM blobs WHERE id = OLD.blob AND refs = 0 AND put_at = -9223372036854775808;
END;

CREATE TABLE IF NOT EXISTS tombstones (
  name TEXT PRIMARY KEY, tenant TEXT NOT NULL, next_seq INTEGER NOT NULL, chain BLOB NOT NULL,
  reason TEXT NOT NULL, purged_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
