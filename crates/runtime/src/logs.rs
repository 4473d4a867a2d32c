//! Logs of streams that are not runs: read and folded, from a checkpoint where there is one.

use kernel::batch::Record;
use kernel::ids::{Seq, StreamId};
use kernel::log::{Aggregate, Checkpointed, Log, Resumable};
use store::{Checkpoint, Loaded, ReadFrom, Store, StoreError};

/// Returns `new` for a stream that does not exist yet.
pub(crate) fn or_new<T>(
    read: Result<T, StoreError>,
    new: impl FnOnce() -> T,
) -> Result<T, StoreError> {
    match read {
        Err(StoreError::Missing) => Ok(new()),
        read => read,
    }
}

/// Attempts of an append that loses races.
const TRIES: u32 = 100;

/// Repeats an append until no other writer is first.
///
/// # Errors
/// `Conflict` when the race was lost too often; the store's.
pub(crate) async fn until_first<T, F>(append: impl Fn() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    for _ in 0..TRIES {
        match append().await {
            Err(StoreError::Conflict(_)) => {}
            result => return result,
        }
    }
    append().await
}

/// Reads a log from its checkpoint on, or from its start where the checkpoint is damaged.
pub(crate) async fn newest(store: &dyn Store, stream: &StreamId) -> Result<Loaded, StoreError> {
    match store.load(stream, ReadFrom::Checkpoint, usize::MAX).await {
        Err(StoreError::Corrupt(_)) => store.load(stream, ReadFrom::Seq(0), usize::MAX).await,
        loaded => loaded,
    }
}

/// Folds records that were read.
///
/// # Errors
/// `Corrupt` where one of them is not the next event.
pub(crate) fn fold<S: Aggregate>(
    mut log: Log<S>,
    records: &[Record],
) -> Result<Log<S>, StoreError> {
    for record in records {
        if log.fold_content(&record.content).is_none() {
            let stream = &log.header().stream;
            return Err(StoreError::Corrupt(format!(
                "the log of {stream} does not fold"
            )));
        }
    }
    Ok(log)
}

/// Reads a log from its start.
///
/// # Errors
/// `Missing`, `Corrupt`, or the store's.
pub(crate) async fn whole<S: Aggregate>(
    store: &dyn Store,
    stream: &StreamId,
) -> Result<Log<S>, StoreError> {
    let loaded = store.load(stream, ReadFrom::Seq(0), usize::MAX).await?;
    fold(Log::at_start(loaded.header), &loaded.records)
}

/// Reads a log from its checkpoint on. Also returns how many events the checkpoint covers.
///
/// # Errors
/// As [`whole`].
pub(crate) async fn current<S: Checkpointed>(
    store: &dyn Store,
    stream: &StreamId,
) -> Result<(Log<S>, Seq), StoreError> {
    let Loaded {
        header,
        checkpoint,
        records,
        first_seq,
        ..
    } = newest(store, stream).await?;
    let resumed = checkpoint
        .and_then(|at| Log::from_checkpoint(header.clone(), at.next_seq, at.chain, &at.state));
    let log = match resumed {
        Some(log) => log,
        None if first_seq == 0 => Log::at_start(header),
        // The checkpoint is of another build.
        None => return Ok((whole(store, stream).await?, 0)),
    };
    let covered = log.next_seq();
    Ok((fold(log, &records)?, covered))
}

/// Reads the end of a log, where the next event goes.
///
/// # Errors
/// As [`whole`].
pub(crate) async fn end<S: Resumable>(
    store: &dyn Store,
    stream: &StreamId,
) -> Result<Log<S>, StoreError> {
    let head = store.load_head(stream).await?;
    let last = ReadFrom::Seq(head.next_seq.saturating_sub(1));
    let loaded = store.load(stream, last, usize::MAX).await?;
    let record = loaded.records.last();
    record
        .and_then(|record| Log::at_end(loaded.header, record, &loaded.index))
        .ok_or_else(|| StoreError::Corrupt(format!("the end of {stream} cannot be read")))
}

/// Reads at most `limit` events from a place on, oldest first. A stream that does not exist has
/// none.
///
/// # Errors
/// `Corrupt`, or the store's.
pub(crate) async fn events<S: Aggregate>(
    store: &dyn Store,
    stream: &StreamId,
    from: Seq,
    limit: usize,
) -> Result<Vec<S::Event>, StoreError> {
    let loaded = match store.load(stream, ReadFrom::Seq(from), limit).await {
        Ok(loaded) => loaded,
        Err(StoreError::Missing) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let read = |record: &Record| {
        serde_json::from_slice(&record.content).map_err(|error| {
            StoreError::Corrupt(format!("an event of {stream} cannot be read: {error}"))
        })
    };
    loaded.records.iter().map(read).collect()
}

/// Stores a checkpoint of a log.
///
/// # Errors
/// The store's.
pub(crate) async fn checkpoint<S: Checkpointed>(
    store: &dyn Store,
    log: &Log<S>,
) -> Result<(), StoreError> {
    let checkpoint = Checkpoint {
        next_seq: log.next_seq(),
        chain: log.chain(),
        state: log.checkpoint(),
    };
    store.put_checkpoint(&log.header().stream, checkpoint).await
}
