-- Lists and counts by status and by subject.
CREATE INDEX streams_of_status ON runwright.streams (tenant, kind, status, created_at, name);
CREATE INDEX streams_of_subject ON runwright.streams (tenant, subject, created_at, name);
