//! Every ban in a `clippy.toml` states a reason.

use super::Finding;
use super::tree::Tree;

/// Readers ignore a ban without a reason as soon as it gets in the way.
pub(super) fn reasons(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files() {
        if path
            .rsplit('/')
            .next()
            .is_none_or(|name| name.trim_start_matches('.') != "clippy.toml")
        {
            continue;
        }
        for ban in bans(text) {
            if !ban.has_reason() {
                let message = "a ban without a reason; write \
                               { path = \"…\", reason = \"why, and what to use instead\" }";
                findings.push(Finding::fail(path, Some(ban.line), message));
            }
        }
    }
    findings
}

/// One entry of a `disallowed-…` list.
struct Ban<'a> {
    line: usize,
    text: &'a str,
}

impl Ban<'_> {
    fn has_reason(&self) -> bool {
        let Some((_, rest)) = self.text.split_once("reason") else {
            return false;
        };
        let value = rest.trim_start().strip_prefix('=').map(str::trim_start);
        value.is_some_and(|value| value.starts_with('"') && !value.starts_with("\"\""))
    }
}

/// Splits the lists into entries: tables and bare strings at the depth of the list.
fn bans(text: &str) -> Vec<Ban<'_>> {
    let mut bans = Vec::new();
    let mut scan = Scan {
        in_list: false,
        in_string: false,
        depth: 0,
        begun: None,
    };
    let mut offset = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if !scan.in_list && line.trim_start().starts_with("disallowed-") {
            scan.in_list = true;
        }
        if scan.in_list {
            for (at, c) in line.char_indices() {
                if c == '#' && !scan.in_string {
                    break;
                }
                if let Some((begun, from)) = scan.step(c, index + 1, offset + at) {
                    bans.push(Ban {
                        line: begun,
                        text: &text[from..=offset + at],
                    });
                }
                if !scan.in_list {
                    break;
                }
            }
        }
        offset += line.len();
    }
    bans
}

struct Scan {
    in_list: bool,
    in_string: bool,
    /// Number of open braces here.
    depth: u32,
    /// Line and offset of the entry's beginning.
    begun: Option<(usize, usize)>,
}

impl Scan {
    /// Takes the next character. If an entry ends with it, returns where that entry began.
    fn step(&mut self, c: char, line: usize, at: usize) -> Option<(usize, usize)> {
        match c {
            '"' => {
                self.in_string = !self.in_string;
                if self.depth > 0 {
                    return None;
                }
                if self.in_string {
                    self.begun = Some((line, at));
                    return None;
                }
                self.begun.take()
            }
            _ if self.in_string => None,
            '{' => {
                self.depth += 1;
                self.begun = Some((line, at));
                None
            }
            '}' => {
                self.depth = self.depth.saturating_sub(1);
                self.begun.take()
            }
            ']' if self.depth == 0 => {
                self.in_list = false;
                None
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(text: &str) -> Vec<usize> {
        let tree = Tree::from([("crates/kernel/clippy.toml", text)]);
        reasons(&tree)
            .iter()
            .filter_map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn a_reason_is_needed_for_every_ban() {
        let text = "\
avoid-breaking-exported-api = false
disallowed-methods = [
    # { path = \"not::a::ban\" }
    { path = \"std::time::Instant::now\", reason = \"time is an argument\" },
    { path = \"std::env::var\" },
    \"std::fs::read\",
    { path = \"a\", reason = \"\" },
    {
        path = \"b\",
        reason = \"see { here ]\",
    },
]
disallowed-types = [\"std::fs::File\"]
";
        assert_eq!(lines_of(text), [5, 6, 7, 13]);
    }

    #[test]
    fn other_settings_are_no_bans() {
        assert_eq!(
            lines_of("doc-valid-idents = [\"SQLite\", \"..\"]\n"),
            [0; 0]
        );
    }
}
