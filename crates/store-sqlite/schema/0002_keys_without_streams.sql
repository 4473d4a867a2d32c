-- A key may belong to no stream: that of a request whose effects are in several, or in none.
DROP TABLE IF EXISTS keys_with_streams;
ALTER TABLE keys RENAME TO keys_with_streams;
CREATE TABLE keys (
  tenant TEXT NOT NULL, namespace TEXT NOT NULL, key TEXT NOT NULL,
  stream INTEGER REFERENCES streams ON DELETE CASCADE,
  digest BLOB, answer BLOB, expires_at INTEGER,
  PRIMARY KEY (tenant, namespace, key)
) STRICT;
INSERT INTO keys SELECT * FROM keys_with_streams;
DROP TABLE keys_with_streams;
CREATE INDEX keys_of_stream ON keys (stream) WHERE stream IS NOT NULL;
CREATE INDEX keys_expiring ON keys (expires_at) WHERE expires_at IS NOT NULL;
