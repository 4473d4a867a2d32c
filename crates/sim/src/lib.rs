//! For tests: a seeded world around the runtime. Not built yet; nothing depends on it.
