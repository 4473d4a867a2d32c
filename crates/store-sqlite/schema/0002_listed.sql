-- The parts of index rows by which lists are filtered and counted, kept by triggers. Apart from the
-- streams, so that an append that changes none of them rewrites no index.
CREATE TABLE IF NOT EXISTS listed (
  stream INTEGER PRIMARY KEY REFERENCES streams ON DELETE CASCADE,
  tenant TEXT NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL, status TEXT NOT NULL,
  created_at INTEGER NOT NULL, name TEXT NOT NULL
) STRICT;
INSERT OR REPLACE INTO listed SELECT id, tenant, index_row ->> 'kind', index_row ->> 'subject',
  index_row ->> 'status', created_at, name FROM streams;
CREATE INDEX IF NOT EXISTS listed_by_status ON listed (tenant, kind, status, created_at, name);
CREATE INDEX IF NOT EXISTS listed_by_subject ON listed (tenant, subject, created_at, name);
CREATE TRIGGER IF NOT EXISTS stream_created AFTER INSERT ON streams BEGIN
  INSERT INTO listed VALUES (NEW.id, NEW.tenant, NEW.index_row ->> 'kind',
    NEW.index_row ->> 'subject', NEW.index_row ->> 'status', NEW.created_at, NEW.name);
END;
CREATE TRIGGER IF NOT EXISTS stream_changed AFTER UPDATE OF index_row, created_at ON streams
WHEN NEW.index_row ->> 'status' <> OLD.index_row ->> 'status'
  OR NEW.index_row ->> 'subject' <> OLD.index_row ->> 'subject'
  OR NEW.index_row ->> 'kind' <> OLD.index_row ->> 'kind' OR NEW.created_at <> OLD.created_at
BEGIN
  UPDATE listed SET kind = NEW.index_row ->> 'kind', subject = NEW.index_row ->> 'subject',
    status = NEW.index_row ->> 'status', created_at = NEW.created_at WHERE stream = NEW.id;
END;
