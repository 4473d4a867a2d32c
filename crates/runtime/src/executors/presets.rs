//! Executors of common coding agents, by name.
//!
//! Prompts go to standard input if the program reads them there, because an argument is limited to
//! 128 KiB on Linux.

use super::Call;

/// An executor that a configuration names.
pub(super) struct Preset {
    pub(super) argv: &'static [&'static [&'static str]],
    pub(super) stdin: Option<&'static str>,
    pub(super) inherit_env: &'static [&'static str],
}

/// The names of the presets, with the node types they support.
pub const PRESETS: [(&str, &str); 8] = [
    ("claude", "Claude Code: claude -p"),
    ("codex", "Codex CLI: codex exec"),
    ("gemini", "Gemini CLI: gemini -p"),
    ("qwen", "Qwen Code: qwen -p"),
    ("opencode", "opencode: opencode run"),
    ("ccw", "Claude Code Workflow: ccw cli"),
    ("maestro", "Maestro Flow: maestro delegate"),
    (
        "shell",
        "the executor's name is a script for sh; the arguments are its $1",
    ),
];

/// Variables with the keys of the agents' services.
const CLAUDE: &[&str] = &["ANTHROPIC_*", "CLAUDE_*"];
const OPENAI: &[&str] = &["OPENAI_*", "CODEX_*"];
const GOOGLE: &[&str] = &["GEMINI_*", "GOOGLE_*"];
const ANY: &[&str] = &[
    "ANTHROPIC_*",
    "CLAUDE_*",
    "OPENAI_*",
    "CODEX_*",
    "GEMINI_*",
    "GOOGLE_*",
    "DASHSCOPE_*",
    "QWEN_*",
    "OPENCODE_*",
];

/// The preset of a name for a node type. An element with several texts is a group that is omitted
/// if a placeholder in it is empty.
pub(super) fn preset(name: &str, kind: Call) -> Option<Preset> {
    let named = matches!(kind, Call::Skill | Call::Command);
    let of = |argv, stdin, inherit_env| Preset {
        argv,
        stdin,
        inherit_env,
    };
    Some(match (name, kind) {
        ("claude", _) if named => of(
            &[&["claude"], &["-p"], &["--output-format"], &["json"]],
            Some("/{executor} {args}"),
            CLAUDE,
        ),
        ("claude", Call::Agent) => of(
            &[&["claude"], &["-p"], &["--output-format"], &["json"]],
            Some("Use the sub-agent {executor} for this task.\n\n{args}"),
            CLAUDE,
        ),
        ("claude", _) => of(
            &[&["claude"], &["-p"], &["--output-format"], &["json"]],
            Some("{args}"),
            CLAUDE,
        ),
        ("codex", _) if named => of(
            &[&["codex"], &["exec"], &["-"]],
            Some("/{executor} {args}"),
            OPENAI,
        ),
        ("codex", _) => of(&[&["codex"], &["exec"], &["-"]], Some("{args}"), OPENAI),
        ("gemini", _) => of(&[&["gemini"], &["-p"], &["{args}"]], None, GOOGLE),
        ("qwen", _) => of(&[&["qwen"], &["-p"], &["{args}"]], None, ANY),
        ("opencode", _) => of(&[&["opencode"], &["run"], &["{args}"]], None, ANY),
        ("ccw", _) => of(
            &[
                &["ccw"],
                &["cli"],
                &["-p"],
                &["{args}"],
                &["--tool", "{cli_tool}"],
                &["--mode", "{cli_mode}"],
                &["--rule", "{cli_rule}"],
                &["--id"],
                &["{task_id}"],
            ],
            None,
            ANY,
        ),
        ("maestro", _) => of(
            &[
                &["maestro"],
                &["delegate"],
                &["{args}"],
                &["--to", "{cli_tool}"],
                &["--mode", "{cli_mode}"],
                &["--rule", "{cli_rule}"],
            ],
            None,
            ANY,
        ),
        ("shell", _) => of(
            &[&["sh"], &["-c"], &["{executor}"], &["sh"], &["{args}"]],
            None,
            &[],
        ),
        _ => return None,
    })
}
