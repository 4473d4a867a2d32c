//! The limits of what is stored. A value that grows without one is a bug.

/// Bytes of a workflow definition document.
pub const MAX_DEFINITION_BYTES: usize = 16 << 20;
/// Nesting of any other JSON document that comes in or is computed.
pub const MAX_JSON_DEPTH: usize = 100;
/// Nesting of a workbench document.
pub const MAX_DOCUMENT_DEPTH: usize = 512;
/// Nesting of a text that is read at all: a document and what events and views wrap around it.
pub const MAX_READ_DEPTH: usize = MAX_DOCUMENT_DEPTH + 28;
/// Stack of a thread that reads such a text and works on its values. Builds without optimisation
/// need half of it.
pub const READER_STACK_BYTES: usize = 16 << 20;
/// Bytes of a document's text that an event holds; a longer one is kept in a blob. Small enough
/// that stores keep the event in its row, so that a damaged blob harms one save.
pub const MAX_INLINE_TEXT_BYTES: usize = 24 << 10;
/// Nodes of a definition.
pub const MAX_NODES: usize = 20_000;
/// Edges of a definition.
pub const MAX_EDGES: usize = 100_000;
/// Bytes of an id or name within a definition.
pub const MAX_NAME_BYTES: usize = 256;
/// Characters of the id of a node.
pub const MAX_NODE_ID_CHARS: usize = 128;
/// Problems listed of one definition; the rest is counted.
pub const MAX_PROBLEMS: usize = 100;
/// Bytes of one expression.
pub const MAX_EXPRESSION_BYTES: usize = 4_096;
/// Bytes of all expressions of a definition that need the full parser.
pub const MAX_EXPRESSIONS_BYTES: usize = 1 << 20;
/// Work of one evaluation: nodes of the expression visited, elements and 16-byte pieces of text
/// touched.
pub const MAX_EXPRESSION_STEPS: usize = 1_000_000;
/// Bytes of one event's canonical content. Larger values belong in an artifact.
pub const MAX_EVENT_BYTES: usize = 8 << 20;
/// Bytes of a chunk of output in one event.
pub const MAX_CHUNK_BYTES: usize = 64 << 10;
/// Bytes of the values that an attempt reports in one event: a tool's inputs, or its result.
pub const MAX_REPORT_BYTES: usize = 1 << 20;
/// Node executions of one run, unless the host sets less (`cap.breached` node-executions).
pub const MAX_NODE_EXECUTIONS: u64 = 1_000_000;
/// Default maximum rounds of one loop.
pub const DEFAULT_LOOP_ITERATIONS: u32 = 1_000;
/// Maximum rounds of one loop, even if the definition sets more.
pub const MAX_LOOP_ITERATIONS: u32 = 1_000_000;
/// Attempts of one visit of a node.
pub const MAX_ATTEMPTS: u32 = 1_000;
/// Retries of one visit of a node.
pub const MAX_RETRIES: u32 = MAX_ATTEMPTS - 1;
/// Longest wait of a timer, a delay, a retry or a timeout: ten years in milliseconds.
pub const MAX_WAIT_MS: u64 = 10 * 366 * 24 * 3_600_000;
/// Signals kept without a waiting node, over all names.
pub const MAX_INBOX: usize = 10_000;
/// Events that a fork copies, or decides again, in one append.
pub const MAX_COPY_EVENTS: usize = 10_000;
/// Bytes of events that a fork copies, or decides again, in one append. One event more may go in.
pub const MAX_COPY_BYTES: usize = 16 << 20;
/// Workers of one decision.
pub const MAX_WORKERS: usize = 256;
/// How often a model is asked for an answer of a shape.
pub const MAX_SCHEMA_ROUNDS: u32 = 3;
/// Workers of one decision that run at the same time.
pub const MAX_FAN_OUT: u32 = 128;
/// How deep runs may start runs.
pub const MAX_RUN_DEPTH: u32 = 16;
/// Tags of a run.
pub const MAX_TAGS: usize = 100;
/// Characters of one tag.
pub const MAX_TAG_CHARS: usize = 256;
/// Bytes of a run's metadata as JSON.
pub const MAX_METADATA_BYTES: usize = 8_192;
/// Nesting of a run's metadata.
pub const MAX_METADATA_DEPTH: usize = 4;
/// Bytes of an error message kept in the log.
pub const MAX_ERROR_MESSAGE_BYTES: usize = 4_096;
/// Entries of an append, votes or feedback channel without `maxSize`.
pub const DEFAULT_CHANNEL_ENTRIES: usize = 10_000;
/// Maximum entries of a channel, even if its `maxSize` is greater.
pub const MAX_CHANNEL_ENTRIES: usize = 100_000;
/// The largest amount or count in an event: JSON numbers are exact up to here.
pub const MAX_COUNT: u64 = (1 << 53) - 1;
/// Bytes of a value in a command. An event may hold it twice.
pub const MAX_VALUE_BYTES: usize = MAX_EVENT_BYTES / 4;
/// Keys of a tenant that work at a time.
pub const MAX_KEYS: usize = 10_000;
/// Scopes of one key.
pub const MAX_SCOPES: usize = 64;
/// Groups, and roles, of one credential.
pub const MAX_MEMBERSHIPS: usize = 64;
/// Webhooks of a tenant.
pub const MAX_WEBHOOKS: usize = 100;
/// Bytes of a webhook's address.
pub const MAX_WEBHOOK_URL_BYTES: usize = 2_048;
/// Event types that a webhook names.
pub const MAX_WEBHOOK_EVENTS: usize = 128;
/// Events that wait for another attempt at a webhook; more stay in the logs until there is room.
pub const MAX_WAITING_DELIVERIES: usize = 1_000;
/// Attempts at delivering one event before it becomes a dead letter.
pub const MAX_DELIVERY_ATTEMPTS: u32 = 12;
/// Dead letters of a webhook that are listed; older ones are counted.
pub const MAX_DEAD_LETTERS: usize = 100;
/// Requests of a coordinator that are not settled.
pub const MAX_OPEN_REQUESTS: usize = 100_000;
/// Messages in the mailboxes of a coordinator that were not read.
pub const MAX_OPEN_MAIL: usize = 100_000;
/// Workers that a coordinator remembers.
pub const MAX_KNOWN_WORKERS: usize = 10_000;
/// Tasks that a worker takes at once.
pub const MAX_TAKEN_AT_ONCE: usize = 64;
/// How long a worker may wait before it reports that it begins an offered task, in milliseconds.
pub const MAX_TASK_OFFER_MS: u64 = 10_000;
/// Bytes of the key of a take.
pub const MAX_TAKE_KEY_BYTES: usize = 128;
/// Bytes of a worker's result for a task.
pub const MAX_TASK_RESULT_BYTES: usize = 1 << 20;
/// Bytes of the id of a request or a message.
pub const MAX_REQUEST_ID_BYTES: usize = 16 << 10;
/// Annotations of one run.
pub const MAX_ANNOTATIONS: u64 = 1_000;
/// Bytes of a note or a correction in an annotation.
pub const MAX_NOTE_BYTES: usize = 16 << 10;
/// Bytes of a label in an annotation.
pub const MAX_LABEL_BYTES: usize = 256;
/// Bytes of a document.
pub const MAX_DOCUMENT_BYTES: usize = 25 << 20;
/// Saves of a document.
pub const MAX_SAVES: usize = 100_000;
/// Events of a run view that one save may imply; what is beyond is not shown.
pub const MAX_IMPLIED: usize = 10_000;
/// Bytes of an artifact's data from which on a save names it instead of holding it.
pub const MAX_INLINE_ARTIFACT_BYTES: usize = 32 << 10;
/// Pending gates that the index row of a document lists; the rest is counted.
pub const MAX_LISTED_GATES: usize = 100;
/// Bytes of a text that a document's index row repeats.
pub const MAX_LISTED_TEXT_BYTES: usize = 512;
/// Parents of a document that its index row names.
pub const MAX_PARENTS: usize = 64;
/// Bytes of the file of an execution snapshot: a hundred thousand changed files with long paths, or
/// sixteen mebibytes of output of which each byte is escaped, with room to spare.
pub const MAX_SNAPSHOT_BYTES: usize = 256 << 20;
/// Bytes of a line of an execution snapshot: a call with all its changes, or an attempt to replay
/// it.
pub const MAX_CALL_BYTES: usize = MAX_SNAPSHOT_BYTES;
/// Bytes of memory of a program that a tenant's definition runs, with all it starts.
pub const MAX_PROGRAM_MEMORY_BYTES: u64 = 2 << 30;
/// Processes of such a program at a time, their threads counted.
pub const MAX_PROGRAM_PROCESSES: u64 = 512;
/// Bytes of one file that such a program writes.
pub const MAX_PROGRAM_FILE_BYTES: u64 = 1 << 30;
/// Files that one process of such a program has open.
pub const MAX_PROGRAM_OPEN_FILES: u64 = 1_024;
/// Bytes of one output of such a program.
pub const MAX_PROGRAM_OUTPUT_BYTES: u64 = 256 << 20;
/// Milliseconds that such a program may run.
pub const MAX_PROGRAM_MS: u64 = 3_600_000;
