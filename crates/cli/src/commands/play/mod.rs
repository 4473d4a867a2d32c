//! `runwright play`: sessions of workflow templates. Each file implements one option or subcommand.

mod adopt;
mod archive;
mod callback;
mod calls;
mod changed;
mod checks;
mod context;
mod decide;
mod drive;
mod dry_run;
mod files;
mod fork;
mod graph;
mod index;
mod list;
mod new;
mod presence;
mod ready;
mod replan;
mod resume;
mod session_status;
mod sessions;
mod so_far;
mod start;
mod status;
mod templates;
mod view;
mod words;

use clap::Subcommand;

use crate::exit::{Exit, Failure};
use crate::session::Session;
use crate::span::Span;
use crate::{ask, budget};

pub(crate) use files::keep as keep_files;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  runwright play new hello                   create a template and runwright.toml
  runwright play hello --context goal='Say hello'
  runwright play --list
  runwright play hello --context goal=x --dry-run
  runwright play --resume                    continue the last unfinished session
  runwright play --resume WFR-hello-20260317-143022 --from CP-01
  runwright play --resume --replan           with the template as it is now
  runwright play --status
  runwright play --retry N-002               after you removed the cause of its failure

A template is in .workflow/templates/. The programs of its nodes are configured in runwright.toml,
in the project folder or above it. A session is kept in .workflow/sessions/ID/:
session-state.json, checkpoints/ and artifacts/NODE.log. It is a run of the store in .runwright:
`runwright runs show ID` shows it, too.

Exit codes of playing, resuming and --status --watch: 0 completed, 1 failed or aborted, 2 wrong
usage or a template that cannot be played, 3 paused, 130 interrupted. --abort, --archive, --status
and --list exit with 0 when they succeed."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    /// The template: its name, its file, or - for standard input
    #[arg(value_name = "TEMPLATE")]
    template: Option<String>,

    /// Context variables; several NAME=VALUE may follow
    #[arg(long, value_name = "NAME=VALUE", num_args = 1.., help_heading = "Starting")]
    context: Vec<String>,

    /// Context variables from a JSON file; --context overrides it
    #[arg(long, value_name = "FILE", help_heading = "Starting")]
    context_file: Option<String>,

    /// Check the template, show the plan and every problem; write nothing
    #[arg(long, help_heading = "Starting")]
    dry_run: bool,

    /// Treat warnings as errors
    #[arg(long, help_heading = "Starting")]
    strict: bool,

    /// Wait for a person at this checkpoint, even if it continues by itself
    #[arg(long, value_name = "CHECKPOINT", help_heading = "Starting")]
    pause_at: Vec<String>,

    /// US dollars the session may use; no further nodes start once they are used up. With --resume,
    /// --retry or --from a new session with this budget continues it
    #[arg(long, value_name = "AMOUNT", value_parser = budget::usd, allow_negative_numbers = true)]
    budget_usd: Option<f64>,

    /// Tokens the session may use, as --budget-usd
    #[arg(long, value_name = "N", value_parser = budget::tokens, allow_negative_numbers = true)]
    budget_tokens: Option<u64>,

    /// The most nodes that run at a time [default: one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,

    /// Time limit of an attempt of a node, such as 90s or 30m
    #[arg(long, value_name = "TIME", help_heading = "Starting")]
    timeout: Option<Span>,

    /// Continue at checkpoints without asking
    #[arg(short, long)]
    yes: bool,

    /// Print only failures, at the end
    #[arg(short, long)]
    quiet: bool,

    /// Also show the output of processes; with --status, follow the session until it ends or waits
    #[arg(short, long)]
    watch: bool,

    /// List the templates
    #[arg(long, help_heading = "Instead of starting")]
    list: bool,

    /// Resume a session
    #[arg(short = 'c', long, visible_alias = "continue", value_name = "SESSION",
          num_args = 0..=1, help_heading = "Instead of starting")]
    resume: Option<Option<String>>,

    /// With --resume: start a new session after this checkpoint, or before this node
    #[arg(
        long,
        value_name = "NODE",
        requires = "resume",
        help_heading = "Instead of starting"
    )]
    from: Option<String>,

    /// With --resume: continue with the current template in a new session; shows what changes. With
    /// --dry-run it only shows the changes
    #[arg(
        long,
        requires = "resume",
        conflicts_with = "from",
        help_heading = "Instead of starting"
    )]
    replan: bool,

    /// Show the sessions, or one of them
    #[arg(long, value_name = "SESSION", num_args = 0..=1, help_heading = "Instead of starting")]
    status: Option<Option<String>>,

    /// Archive a session that has ended
    #[arg(long, value_name = "SESSION", num_args = 0..=1, help_heading = "Instead of starting")]
    archive: Option<Option<String>>,

    /// End a session and stop all its processes
    #[arg(long, value_name = "SESSION", num_args = 0..=1, help_heading = "Instead of starting")]
    abort: Option<Option<String>>,

    /// Try this failed node again and continue
    #[arg(long, value_name = "NODE", help_heading = "Instead of starting")]
    retry: Vec<String>,

    /// Skip this failed node and continue
    #[arg(long, value_name = "NODE", help_heading = "Instead of starting")]
    skip: Vec<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a first template
    New(new::Args),
    /// Draw a template
    Graph(graph::Args),
    /// Report the end of work that a node handed to an outside system
    Callback(callback::Args),
}

/// Carries out the command.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    if args.asked() > 1 {
        let what = "--list, --resume, --status, --archive, --abort, --dry-run and a template exclude \
                    each other";
        return Err(Failure::new(what).hint("use one of them"));
    }
    let goes_on = args.resume.is_some() || !args.retry.is_empty() || !args.skip.is_empty();
    if let Some(kept) = args.settled_at_the_start().filter(|_| goes_on) {
        let what = format!("a session keeps the {kept} it started with");
        let hint =
            format!("remove --{kept}, or start a new session with `runwright play TEMPLATE`");
        return Err(Failure::new(what).hint(hint));
    }
    let begins_anew = args.from.is_some() || args.replan;
    if begins_anew && !(args.retry.is_empty() && args.skip.is_empty()) {
        let what = "--retry and --skip apply to a node of this session; --from and --replan start \
                    a new session";
        return Err(Failure::new(what).hint("use one of them"));
    }
    match &args {
        Args {
            command: Some(Command::New(new)),
            ..
        } => new::run(new, session),
        Args {
            command: Some(Command::Graph(graph)),
            ..
        } => graph::run(graph, session),
        Args {
            command: Some(Command::Callback(callback)),
            ..
        } => callback::run(callback, session).await,
        Args { list: true, .. } => list::run(session),
        Args {
            status: Some(name), ..
        } => status::run(name.as_deref(), &args, session).await,
        Args {
            archive: Some(name),
            ..
        } => archive::run(name.as_deref(), session).await,
        Args {
            abort: Some(name), ..
        } => decide::abort(name.as_deref(), session).await,
        Args {
            resume: Some(name),
            from: Some(from),
            ..
        } => fork::run(name.as_deref(), from, &args, session).await,
        Args {
            resume: Some(name),
            replan: true,
            ..
        } => replan::run(name.as_deref(), &args, session).await,
        Args {
            resume: Some(name), ..
        } => resume::run(name.as_deref(), &args, session).await,
        _ if !args.retry.is_empty() || !args.skip.is_empty() => {
            resume::run(None, &args, session).await
        }
        Args { dry_run: true, .. } => dry_run::run(&args, session),
        _ => start::run(&args, session).await,
    }
}

impl Args {
    /// The first given option that only applies to new sessions.
    fn settled_at_the_start(&self) -> Option<&'static str> {
        let has_context = !self.context.is_empty() || self.context_file.is_some();
        let typed = [
            ("context", has_context),
            ("pause-at", !self.pause_at.is_empty()),
            ("timeout", self.timeout.is_some()),
        ];
        typed
            .iter()
            .find(|(_, is_typed)| *is_typed)
            .map(|(name, _)| *name)
    }

    /// The number of different actions requested.
    fn asked(&self) -> usize {
        [
            self.template.is_some() || (self.dry_run && !self.replan),
            self.list,
            self.resume.is_some(),
            self.status.is_some(),
            self.archive.is_some(),
            self.abort.is_some(),
        ]
        .into_iter()
        .filter(|asked| *asked)
        .count()
    }
}
