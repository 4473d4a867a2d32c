//! `runwright snapshot tool`: a tool of a captured command, recorded or served.

mod input;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use capture::call::EffectClass;
use capture::clean::bytes_of;
use capture::environment::CAPTURE_URL;
use capture::proxy::environment_within;
use capture::tool::{ASK, BEGIN, Client, END};
use clap::ValueEnum;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use self::input::{Given, Input};
use super::command::{said, surroundings};
use crate::exit::{Exit, Failure, no_thread};
use crate::talk;

/// Maximum recorded bytes of each output.
const MAX_OUTPUT: usize = 16 << 20;
/// The exit code for a program that cannot be started, as in shells.
const NOT_STARTED: u8 = 127;
/// Maximum wait for the rest of an input after the tool has ended.
const REST: Duration = Duration::from_secs(2);

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The captured command calls it. A replay that takes tools from the recording runs nothing: output,
exit code and changed files come from the recording. Outside a capture the tool is only run.

  runwright snapshot tool search --effect read -- grep -rn price src

Exits as the tool does."
)]
pub(crate) struct Args {
    /// The name of the tool
    name: String,

    /// Its effect
    #[arg(long, value_name = "CLASS", default_value = "unknown")]
    effect: Effect,

    /// Pass and record this program's standard input (the first 16 MiB); without it there is none
    #[arg(long)]
    stdin: bool,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    argv: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Effect {
    /// Reads only
    Read,
    /// Writes below the working folder
    WriteLocal,
    /// Has effects outside the working folder
    External,
    /// Not declared; treated as external
    Unknown,
}

impl Effect {
    fn class(self) -> EffectClass {
        match self {
            Self::Read => EffectClass::Read,
            Self::WriteLocal => EffectClass::WriteLocal,
            Self::External => EffectClass::External,
            Self::Unknown => EffectClass::Unknown,
        }
    }
}

/// Runs a tool, or returns its recorded result.
pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let client = match std::env::var(CAPTURE_URL) {
        Ok(url) => Some(Client::new(&url).map_err(said)?),
        Err(_) => {
            talk::say("no capture is active: the tool is run and not recorded");
            None
        }
    };
    let mut given = match (args.stdin, &client) {
        (false, _) => Given::Nothing,
        (true, None) => Given::Own,
        (true, Some(_)) => Given::Recorded(Input::own().map_err(|error| no_thread(&error))?),
    };
    let mut input = json!({ "argv": args.argv });
    if let Ok(cwd) = std::env::current_dir() {
        input["cwd"] = json!(cwd);
    }
    let mut seq = None;
    if let Some(client) = &client {
        // A replay finds the call by its complete input.
        if let Given::Recorded(stdin) = &mut given
            && client.ask(ASK, &json!({})).await.map_err(said)?["serves"] == true
        {
            stdin.read_ahead().await;
            stdin.say(&mut input);
        }
        let effect = args.effect.class().as_str();
        let order = json!({ "kind": "tool", "name": args.name, "input": input, "effect": effect });
        let answer = client.ask(BEGIN, &order).await.map_err(said)?;
        if let Some(message) = answer["diverged"].as_str() {
            return Err(Failure::new(message));
        }
        if !answer["recorded"].is_null() {
            return Ok(serve(&args.argv[0], &answer["recorded"]));
        }
        seq = answer["run"].as_u64();
    }
    let within = seq.map(|seq| environment_within(&surroundings(), seq));
    let ran = execute(&args.argv, &mut given, within.unwrap_or_default()).await;
    let (output, code) = match &ran {
        Ok(ran) => (ran.output(), ran.code),
        Err(error) => (json!({ "error": error.to_string() }), NOT_STARTED),
    };
    if let (Some(client), Some(seq)) = (&client, seq) {
        let mut order = json!({ "seq": seq, "output": output, "is_error": code != 0 });
        if let Given::Recorded(stdin) = &mut given {
            // A client that waits for the tool's end before it closes the input would deadlock.
            let rest = tokio::time::timeout(REST, stdin.read_ahead()).await;
            stdin.say(&mut input);
            if rest.is_err() {
                input["stdin_cut"] = json!(true);
            }
            order["input"] = input;
        }
        client.ask(END, &order).await.map_err(said)?;
    }
    if let Err(error) = ran {
        return Ok(not_started(&args.argv[0], &error));
    }
    Ok(Exit::Code(code))
}

/// The result of a tool.
struct Ran {
    stdout: (Vec<u8>, bool),
    stderr: (Vec<u8>, bool),
    code: u8,
}

impl Ran {
    fn output(&self) -> Value {
        let mut output = json!({
            "stdout": as_output(&self.stdout.0),
            "stderr": as_output(&self.stderr.0),
            "exit_code": self.code,
        });
        if self.stdout.1 || self.stderr.1 {
            output["cut"] = json!(true);
        }
        output
    }
}

/// Bytes as JSON; the capture cleans them.
fn as_output(bytes: &[u8]) -> Value {
    capture::clean::output_of(bytes)
}

async fn execute(
    argv: &[String],
    given: &mut Given,
    environment: BTreeMap<String, String>,
) -> std::io::Result<Ran> {
    let mut child = Command::new(&argv[0])
        .args(&argv[1..])
        .envs(environment)
        .stdin(match given {
            Given::Own => Stdio::inherit(),
            Given::Nothing | Given::Recorded(_) => Stdio::piped(),
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let to = child.stdin.take();
    let stdout = child.stdout.take().map(|out| tee(out, std::io::stdout()));
    let stderr = child.stderr.take().map(|out| tee(out, std::io::stderr()));
    let none = async || (Vec::new(), false);
    let read = async {
        tokio::join!(
            async {
                match stdout {
                    Some(out) => out.await,
                    None => none().await,
                }
            },
            async {
                match stderr {
                    Some(out) => out.await,
                    None => none().await,
                }
            },
        )
    };
    let ran = async { tokio::join!(read, child.wait()) };
    let ((stdout, stderr), status) = match (given, to) {
        (Given::Recorded(stdin), Some(to)) => stdin.pass_on_during(to, ran).await,
        (_, to) => {
            drop(to);
            ran.await
        }
    };
    let status = status?;
    use std::os::unix::process::ExitStatusExt as _;
    // As shells report signals.
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(Ran {
        stdout,
        stderr,
        code: code.and_then(|code| u8::try_from(code).ok()).unwrap_or(255),
    })
}

async fn tee(mut from: impl AsyncRead + Unpin, mut to: impl Write) -> (Vec<u8>, bool) {
    let (mut all, mut is_cut) = (Vec::new(), false);
    let mut piece = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        // A closed output is ignored: it is recorded.
        let _ = to.write_all(&piece[..count]).and_then(|()| to.flush());
        let room = MAX_OUTPUT - all.len();
        all.extend_from_slice(&piece[..count.min(room)]);
        is_cut |= count > room;
    }
    (all, is_cut)
}

/// The message about a tool that cannot be started, live or in the recording.
fn not_started(program: &str, error: &dyn std::fmt::Display) -> Exit {
    talk::say(format!("{program} cannot be started: {error}"));
    Exit::Code(NOT_STARTED)
}

fn serve(program: &str, output: &Value) -> Exit {
    let write = |mut to: Box<dyn Write>, output: &Value| {
        // A closed output is ignored, as when recorded: the tool ends with the recorded code.
        let _ = to.write_all(&bytes_of(output)).and_then(|()| to.flush());
    };
    write(Box::new(std::io::stdout()), &output["stdout"]);
    write(Box::new(std::io::stderr()), &output["stderr"]);
    if let Some(error) = output["error"].as_str() {
        return not_started(program, &error);
    }
    let code = output["exit_code"]
        .as_u64()
        .and_then(|code| u8::try_from(code).ok());
    Exit::Code(code.unwrap_or(255))
}
