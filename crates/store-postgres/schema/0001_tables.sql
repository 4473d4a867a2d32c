-- Ids, names and keys are compared by their bytes (collation C), as every other store does.
-- All times are milliseconds since the Unix epoch.

-- One row per stream. The index row is kept whole as JSON; the columns next to it are those that
-- queries filter by.
CREATE TABLE runwright.streams (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE,
  tenant text COLLATE "C" NOT NULL,
  next_seq bigint NOT NULL,
  chain bytea NOT NULL,
  epoch bigint NOT NULL DEFAULT 0,       -- The newest lease's, kept when that is released.
  holder text COLLATE "C",
  expires_at bigint,
  settled boolean NOT NULL,
  runnable boolean NOT NULL,
  queue text COLLATE "C" NOT NULL,
  priority integer NOT NULL,
  concurrency_key text COLLATE "C",
  parent text COLLATE "C",
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  timer bigint,                          -- The earliest row of timers.
  -- Since when the stream waits for a worker, or from when on it will.
  wake bigint GENERATED ALWAYS AS
    (CASE WHEN runnable THEN least(updated_at, timer) ELSE timer END) STORED,
  kind text COLLATE "C" NOT NULL,
  workspace text COLLATE "C",
  subject text COLLATE "C" NOT NULL,
  status text COLLATE "C" NOT NULL,
  tags text[] COLLATE "C" NOT NULL,
  index_row text NOT NULL
) WITH (fillfactor = 80);
-- Leaving held streams out keeps these two short while the streams are driven.
CREATE INDEX streams_runnable ON runwright.streams (queue, priority DESC, wake, name)
  WHERE holder IS NULL AND runnable;
CREATE INDEX streams_timed ON runwright.streams (queue, wake)
  WHERE holder IS NULL AND NOT runnable AND wake IS NOT NULL;
CREATE INDEX streams_held ON runwright.streams (queue, expires_at) WHERE holder IS NOT NULL;
CREATE INDEX streams_exclusive ON runwright.streams (tenant, concurrency_key)
  WHERE holder IS NOT NULL AND concurrency_key IS NOT NULL;
CREATE INDEX streams_listed ON runwright.streams (created_at, name);
CREATE INDEX streams_of_parent ON runwright.streams (parent, created_at, name)
  WHERE parent IS NOT NULL;
CREATE INDEX streams_of_kind ON runwright.streams (tenant, kind, created_at, name);
CREATE INDEX streams_of_status ON runwright.streams (tenant, kind, status, created_at, name);
CREATE INDEX streams_of_subject ON runwright.streams (tenant, kind, subject, created_at, name);
-- The cost of a list for a workspace does not depend on the rest of its tenant.
CREATE INDEX streams_of_workspace ON runwright.streams
  (tenant, workspace, kind, created_at, name) WHERE workspace IS NOT NULL;
CREATE INDEX streams_of_workspace_status ON runwright.streams
  (tenant, workspace, kind, status, created_at, name) WHERE workspace IS NOT NULL;

-- Apart from their streams, so that the rows that every append rewrites stay short.
CREATE TABLE runwright.headers (
  stream bigint PRIMARY KEY REFERENCES runwright.streams ON DELETE CASCADE,
  header text NOT NULL
);

-- Apart from the counter, this sequence is never set. docs/design/feed-on-postgres.md says why
-- positions that it gives are in commit order.
CREATE SEQUENCE runwright.positions CACHE 1;
-- No foreign key: this is the hot table.
CREATE TABLE runwright.events (
  position bigint NOT NULL,
  stream bigint NOT NULL,
  seq bigint NOT NULL,
  blob bigint,                           -- Holds the content of a large event.
  chain bytea NOT NULL,
  content bytea NOT NULL,
  PRIMARY KEY (stream, seq)
);
CREATE UNIQUE INDEX events_feed ON runwright.events (position);

CREATE TABLE runwright.checkpoints (
  stream bigint PRIMARY KEY REFERENCES runwright.streams ON DELETE CASCADE,
  next_seq bigint NOT NULL,
  chain bytea NOT NULL,
  state bytea NOT NULL
);
CREATE TABLE runwright.timers (
  stream bigint NOT NULL REFERENCES runwright.streams ON DELETE CASCADE,
  name text COLLATE "C" NOT NULL,
  due bigint NOT NULL,
  PRIMARY KEY (stream, name)
);

-- A key may belong to no stream: that of a request whose effects are in several, or in none.
CREATE TABLE runwright.keys (
  tenant text COLLATE "C" NOT NULL,
  namespace text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  stream bigint REFERENCES runwright.streams ON DELETE CASCADE,
  digest bytea,
  answer bytea,
  expires_at bigint,
  PRIMARY KEY (tenant, namespace, key)
);
CREATE INDEX keys_of_stream ON runwright.keys (stream) WHERE stream IS NOT NULL;
CREATE INDEX keys_expiring ON runwright.keys (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE runwright.outbox (
  place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  source bigint NOT NULL REFERENCES runwright.streams ON DELETE CASCADE,
  message text COLLATE "C" NOT NULL,
  target text COLLATE "C" NOT NULL,
  command bytea NOT NULL
);
CREATE INDEX outbox_of_source ON runwright.outbox (source);

CREATE TABLE runwright.blobs (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant text COLLATE "C" NOT NULL,
  digest bytea NOT NULL,
  size bigint NOT NULL,
  refs bigint NOT NULL DEFAULT 0,        -- Rows of blob_refs.
  put_at bigint NOT NULL,                -- The last put that no reference followed.
  stored bytea NOT NULL,
  UNIQUE (tenant, digest)
);
-- The bytes are compressed already.
ALTER TABLE runwright.blobs ALTER COLUMN stored SET STORAGE EXTERNAL;
ALTER TABLE runwright.checkpoints ALTER COLUMN state SET STORAGE EXTERNAL;
CREATE INDEX blobs_unreferenced ON runwright.blobs (put_at) WHERE refs = 0;
-- One row per reference.
CREATE TABLE runwright.blob_refs (
  stream bigint NOT NULL REFERENCES runwright.streams ON DELETE CASCADE,
  blob bigint NOT NULL REFERENCES runwright.blobs
);
CREATE INDEX blob_refs_of_stream ON runwright.blob_refs (stream);
CREATE INDEX blob_refs_of_blob ON runwright.blob_refs (blob);

CREATE TABLE runwright.tombstones (
  name text COLLATE "C" PRIMARY KEY,
  tenant text COLLATE "C" NOT NULL,
  next_seq bigint NOT NULL,
  chain bytea NOT NULL,
  reason text NOT NULL,
  purged_at bigint NOT NULL
);
