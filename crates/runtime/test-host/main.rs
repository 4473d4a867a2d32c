//! Processes for the tests of this crate: a supervisor, as the product starts itself, and an engine
//! that can be killed.
//!
//! `engine` reads a line of JSON (`dir`, `run`, `key`, `restarts`, `argv`, `cwd`, `env`) and starts
//! that process; it prints a line for every event of it.

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::time::Duration;

use runtime::supervisor::{DEFAULT_OUTPUT_LIMIT, EXEC_COMMAND, Seen, Spec, Supervisor, exec_main};
use serde_json::Value;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(role) if role == EXEC_COMMAND => exec_main(args),
        Some(role) if role == "engine" => match engine() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "{error}");
                ExitCode::FAILURE
            }
        },
        _ => ExitCode::from(2),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn engine() -> Result<(), Box<dyn std::error::Error>> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let order: Value = serde_json::from_str(&line)?;
    let text = |name: &str| order[name].as_str().unwrap_or_default().to_owned();
    let supervisor = Supervisor {
        program: std::env::current_exe()?,
        dir: text("dir").into(),
    };
    let spec = Spec {
        run: text("run").into(),
        key: text("key").into(),
        restarts: order["restarts"].as_u64().unwrap_or_default() as u32,
        argv: serde_json::from_value(order["argv"].clone())?,
        env: serde_json::from_value(order["env"].clone())?,
        cwd: text("cwd").into(),
        stdin: Vec::new(),
        timeout: None,
        grace: Duration::from_secs(5),
        output_limit: DEFAULT_OUTPUT_LIMIT,
        confinement: None,
    };
    let mut running = supervisor.start(spec).await?;
    loop {
        let seen = running.next().await;
        writeln!(std::io::stdout(), "{seen:?}")?;
        if matches!(seen, Seen::Finished(_)) {
            return Ok(());
        }
    }
}
