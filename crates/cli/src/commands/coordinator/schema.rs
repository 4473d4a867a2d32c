//! `schema` and `mux-contract`: the program's capabilities.

use faces::coordinator::schema;

use super::pretty;

/// The capabilities of the tmux adapter, as published.
pub(super) const MUX_CONTRACT: &str = "\
adapter-status=tmux adapter ready
mux-operations=resolve-target, send-input, capture-tail, inspect-liveness, attach, detach
mux-target-kinds=delivery-handle, detached
submit-policy=enter(presses=2, delay_ms=100)
readiness=ok
confirmation=Confirmed
adapter=tmux
sample-operation=invalid target: cannot operate on a detached target
";

/// The schema. `--json` counts only as the first word.
pub(super) fn text(words: &[String]) -> String {
    let schema = schema();
    if words.first().is_some_and(|word| word == "--json") {
        return pretty(&schema);
    }
    format!(
        "runtime-schema={}\ncommands={}\nevents={}\ntransport={}\nqueue-transition=notified\n\
         snapshot=authority, backlog, replay, readiness\n",
        schema.schema_version,
        schema.commands.join(", "),
        schema.events.join(", "),
        schema.transport,
    )
}
