//! Dependencies between the modules of a crate point one way: no circle, apart from the listed
//! edges that still point upwards. The list may only shrink.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The edges that still point upwards: one `crate from to` per line.
const LIST: &str = "xtask/upward.txt";

/// The modules that a module uses.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Finds circles between top-level modules, and listed edges that are gone.
///
/// # Errors
/// If a source file or the list is unreadable.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>, String> {
    let list = read(&root.join(LIST))?;
    let mut problems = Vec::new();
    let mut crates: Vec<_> = std::fs::read_dir(root.join("crates"))
        .map_err(|error| format!("cannot read crates/: {error}"))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    crates.sort();
    for folder in crates {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let listed = list.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some(&*name)).then_some((words.next()?, words.next()?))
        });
        let mut files = Vec::new();
        sources(&folder.join("src"), &mut files)?;
        problems.extend(check(&name, graph(&files), listed));
    }
    Ok(problems)
}

/// Each module below `folder` with its text: the first component of its path, without tests.
fn sources(folder: &Path, files: &mut Vec<(String, String)>) -> Result<(), String> {
    let mut stack = vec![folder.to_owned()];
    while let Some(path) = stack.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            stack.extend(entries.filter_map(|entry| entry.ok().map(|entry| entry.path())));
            continue;
        }
        let inside = path.strip_prefix(folder).unwrap_or(&path);
        let inside = inside.to_string_lossy();
        let is_test = inside.ends_with("tests.rs") || inside.contains("tests/");
        let Some(inside) = inside.strip_suffix(".rs").filter(|_| !is_test) else {
            continue;
        };
        let module = inside.split('/').next().unwrap_or_default();
        if module != "lib" && module != "main" {
            files.push((module.to_owned(), read(&path)?));
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn graph(files: &[(String, String)]) -> Graph {
    let modules: BTreeSet<&str> = files.iter().map(|(module, _)| &**module).collect();
    let mut graph = Graph::new();
    for (module, text) in files {
        let used = graph.entry(module.clone()).or_default();
        let used_by_file = uses(text).into_iter();
        used.extend(used_by_file.filter(|name| name != module && modules.contains(&**name)));
    }
    graph
}

/// The modules named in `crate::…` paths outside of comments and test modules.
fn uses(text: &str) -> BTreeSet<String> {
    let code: Vec<&str> = without_tests(text)
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect();
    let code = code.join("\n");
    let name = |rest: &str| -> String {
        let is_part = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '_';
        rest.trim_start().chars().take_while(is_part).collect()
    };
    let mut found = BTreeSet::new();
    for (at, path) in code.match_indices("crate::") {
        let rest = &code[at + path.len()..];
        match rest.strip_prefix('{') {
            None => drop(found.insert(name(rest))),
            Some(group) => found.extend(members(group).into_iter().map(name)),
        }
    }
    found
}

/// The text before its test module `mod NAME { … }`. A declaration `mod NAME;` ends nothing.
fn without_tests(text: &str) -> &str {
    const HEAD: &str = "#[cfg(test)]\nmod ";
    let mut heads = text.match_indices(HEAD);
    let module = heads.find(|(at, _)| {
        let line = text[at + HEAD.len()..].lines().next();
        line.is_some_and(|line| line.contains('{'))
    });
    module.map_or(text, |(at, _)| &text[..at])
}

/// The members of a `{…}` group of paths, up to its closing brace.
fn members(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut members) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                members.push(&group[start..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                members.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    members
}

fn check<'a>(
    krate: &str,
    mut graph: Graph,
    listed: impl Iterator<Item = (&'a str, &'a str)>,
) -> Vec<String> {
    let mut problems = Vec::new();
    for (from, to) in listed {
        if !graph.get_mut(from).is_some_and(|used| used.remove(to)) {
            problems.push(format!(
                "{krate}: `{from}` no longer uses `{to}`; remove the line from {LIST}"
            ));
        }
    }
    while let Some(circle) = circle(&graph) {
        problems.push(format!(
            "{krate}: the modules {} use each other in a circle; move what they share to a lower \
             module",
            circle.join(" -> ")
        ));
        if let [.., from, to] = &*circle
            && let Some(used) = graph.get_mut(from)
        {
            used.remove(to);
        }
    }
    problems
}

/// A circle of modules that starts and ends with the same one.
fn circle(graph: &Graph) -> Option<Vec<String>> {
    let mut done = BTreeSet::new();
    let starts = graph.keys();
    starts
        .into_iter()
        .find_map(|start| search(graph, start, &mut Vec::new(), &mut done))
}

fn search<'g>(
    graph: &'g Graph,
    module: &'g str,
    path: &mut Vec<&'g str>,
    done: &mut BTreeSet<&'g str>,
) -> Option<Vec<String>> {
    if let Some(at) = path.iter().position(|open| *open == module) {
        let mut circle: Vec<String> = path[at..].iter().map(|&name| name.to_owned()).collect();
        circle.push(module.to_owned());
        return Some(circle);
    }
    if !done.insert(module) {
        return None;
    }
    path.push(module);
    let used = graph.get(module).into_iter().flatten();
    for next in used {
        if let Some(found) = search(graph, next, path, done) {
            return Some(found);
        }
    }
    path.pop();
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)], listed: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = files
            .iter()
            .map(|(module, text)| ((*module).to_owned(), (*text).to_owned()))
            .collect();
        check("shell", graph(&files), listed.iter().copied())
    }

    #[test]
    fn one_way_passes() {
        let files = [
            ("top", "use crate::{low::X, middle};"),
            ("middle", "crate::low::y()"),
            (
                "low",
                "// crate::top\n#[cfg(test)]\nmod tests { use crate::top; }",
            ),
        ];
        assert_eq!(found(&files, &[]), [""; 0]);
    }

    #[test]
    fn test_module_in_its_own_file_hides_nothing() {
        let files = [
            ("top", "#[cfg(test)]\nmod tests;\n\nuse crate::low;"),
            ("low", "use crate::top;"),
        ];
        assert_eq!(found(&files, &[]).len(), 1);
    }

    #[test]
    fn circle_is_named() {
        let files = [
            ("top", "use crate::middle::{A, B};"),
            ("middle", "use crate::low;"),
            ("low", "use crate::{\n    outside::Z,\n    top,\n};"),
        ];
        let problems = found(&files, &[]);
        assert_eq!(problems.len(), 1);
        assert!(
            problems[0].contains("low -> top -> middle -> low"),
            "{problems:?}"
        );
    }

    #[test]
    fn listed_edge_passes_until_it_is_gone() {
        let files = [("a", "use crate::b;"), ("b", "use crate::a;")];
        assert_eq!(found(&files, &[("b", "a")]), [""; 0]);
        let problems = found(&[("a", ""), ("b", "")], &[("b", "a")]);
        assert!(problems[0].contains("no longer uses"), "{problems:?}");
    }
}
