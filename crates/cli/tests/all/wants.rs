//! Runs that wait for what their host lacks.

use crate::budgets::{Model, Wants, ask};
use crate::serving::{Serving, call, lab};
use crate::support::*;

#[test]
fn a_run_without_its_key_continues_on_a_server_that_has_it() {
    let lab = lab();
    let model = Model::start(Wants::Nothing);
    let text = format!(
        "[provider.p]\nbase_url = \"http://{}/v1\"\nmodel = \"m\"\ncredential = \"env:NOT_SET_X\"\n",
        model.address
    );
    lab.write("providers.toml", text);
    let file = lab.workflow(&workflow("w", &[ask("a")], &[]));
    let given = [
        "--providers",
        "providers.toml",
        "--allow-http",
        &model.address,
    ];
    let mut run = vec!["run", &file, "--data", "store"];
    run.extend(given);
    lab.call(&run)
        .with(3)
        .says("the engine's own credential for provider p cannot be read");
    let mut serve = vec!["--dev"];
    serve.extend(given);
    // A server without the key tries again, and asks again.
    let serving = Serving::start(&lab, &serve);
    let asked = || {
        let events = call(&lab, &serving, "", &["runs", "events", "last", "--json"]).with(0);
        let events = events.json_lines();
        events
            .iter()
            .filter(|event| is("interrupt.requested")(event))
            .count()
    };
    while asked() < 2 {}
    serving.stop();
    assert_eq!(model.calls(), 0);
    let serving = Serving::with(&lab, &serve, |command| {
        command.env("NOT_SET_X", "planted-secret");
    });
    call(&lab, &serving, "", &["runs", "tail", "last"]).with(0);
    let shown = call(&lab, &serving, "", &["runs", "show", "last", "--json"]).with(0);
    assert_eq!(shown.json()["status"], "completed");
    assert_eq!(model.calls(), 1);
    serving.stop();
}
