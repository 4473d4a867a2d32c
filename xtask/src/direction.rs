//! Dependencies point one way: the workspace's own edges are checked against the list in this file,
//! and the modules of each crate must not form circles ([`crate::circles`]).
//!
//! A crate exists to stop a dependency, so a new edge is a decision: it needs a line here and a
//! record in `docs/design/decisions/`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::Failure;
use crate::project::{Project, output};

/// The workspace crates that a crate may use.
struct Allowed {
    name: &'static str,
    /// In the product.
    normal: &'static [&'static str],
    /// Additionally in its tests; `testkit` and the crate itself are always allowed.
    dev: &'static [&'static str],
}

const ALLOWED: &[Allowed] = &[
    Allowed {
        name: "kernel",
        normal: &[],
        dev: &[],
    },
    Allowed {
        name: "faces",
        normal: &["kernel"],
        dev: &[],
    },
    Allowed {
        name: "store",
        normal: &["kernel"],
        dev: &[],
    },
    Allowed {
        name: "store-sqlite",
        normal: &["store", "kernel"],
        dev: &[],
    },
    Allowed {
        name: "store-postgres",
        normal: &["store", "kernel"],
        dev: &["store-sqlite"],
    },
    Allowed {
        name: "seccomp-notify",
        normal: &[],
        dev: &[],
    },
    Allowed {
        name: "runtime",
        normal: &["store", "seccomp-notify", "kernel"],
        dev: &[],
    },
    Allowed {
        name: "provenance",
        normal: &["runtime", "faces", "kernel"],
        dev: &[],
    },
    Allowed {
        name: "capture",
        normal: &[
            "provenance",
            "runtime",
            "seccomp-notify",
            "faces",
            "store",
            "kernel",
        ],
        dev: &[],
    },
    Allowed {
        name: "server",
        normal: &["provenance", "runtime", "faces", "store", "kernel"],
        dev: &["store-sqlite"],
    },
    Allowed {
        name: "cli",
        normal: &[
            "server",
            "capture",
            "provenance",
            "runtime",
            "faces",
            "store",
            "store-sqlite",
            "store-postgres",
            "kernel",
        ],
        dev: &[],
    },
    Allowed {
        name: "sim",
        normal: &["runtime", "store", "kernel"],
        dev: &[],
    },
    Allowed {
        name: "testkit",
        normal: &[],
        dev: &[],
    },
    Allowed {
        name: "xtask",
        normal: &[],
        dev: &[],
    },
    // Measures any layer against any other.
    Allowed {
        name: "bench",
        normal: &[
            "runtime",
            "store",
            "store-sqlite",
            "kernel",
            "faces",
            "server",
            "capture",
            "provenance",
        ],
        dev: &[],
    },
];

/// Libraries that a pure crate must not depend on, directly or indirectly.
const ABSENT: &[(&str, &[&str])] = &[
    (
        "kernel",
        &[
            "tokio",
            "reqwest",
            "hyper",
            "rusqlite",
            "mio",
            "rand",
            "getrandom",
            "async-trait",
        ],
    ),
    (
        "faces",
        &[
            "tokio",
            "axum",
            "reqwest",
            "hyper",
            "rusqlite",
            "mio",
            "rand",
            "getrandom",
        ],
    ),
];

/// Prints every wrong edge and its fix.
pub(crate) fn run(project: &Project, _arguments: &[String]) -> Result<(), Failure> {
    let metadata = output(&mut project.cargo(&["metadata", "--no-deps", "--format-version=1"]))?;
    let metadata: Value = serde_json::from_str(&metadata)
        .map_err(|error| format!("cargo metadata is not JSON: {error}"))?;
    let edges = edges(&metadata);
    let mut problems = wrong_edges(&edges, ALLOWED);
    problems.extend(unused_edges(&edges, ALLOWED));
    for (krate, absent) in ABSENT {
        let tree = output(&mut project.cargo(&[
            "tree",
            "--locked",
            "--package",
            krate,
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ]))?;
        problems.extend(unwanted(krate, absent, &tree));
    }
    problems.extend(crate::circles::problems(project.root())?);
    for problem in &problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => Ok(()),
        n => Err(Failure::Found(format!("{n} wrong dependencies"))),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Normal,
    Dev,
}

/// The workspace's own edges: from each member to the members it uses.
fn edges(metadata: &Value) -> BTreeMap<String, BTreeSet<(String, Kind)>> {
    let packages = metadata["packages"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let name = |package: &Value| package["name"].as_str().unwrap_or_default().to_owned();
    let members: BTreeSet<String> = packages.iter().map(name).collect();
    let mut edges = BTreeMap::new();
    for package in packages {
        let dependencies = package["dependencies"].as_array();
        let used = dependencies
            .into_iter()
            .flatten()
            .map(|dependency| {
                // A build script is part of building the product: it counts as normal.
                let kind = match dependency["kind"].as_str() {
                    Some("dev") => Kind::Dev,
                    _ => Kind::Normal,
                };
                (name(dependency), kind)
            })
            .filter(|(used, _)| members.contains(used))
            .collect();
        edges.insert(name(package), used);
    }
    edges
}

fn wrong_edges(
    edges: &BTreeMap<String, BTreeSet<(String, Kind)>>,
    allowed: &[Allowed],
) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, used) in edges {
        let Some(allowed) = allowed.iter().find(|allowed| allowed.name == name) else {
            problems.push(format!(
                "{name}: not in the list of crates; say in xtask/src/direction.rs what it may use"
            ));
            continue;
        };
        for (target, kind) in used {
            let target = target.as_str();
            let fine = match kind {
                Kind::Normal => allowed.normal.contains(&target),
                Kind::Dev => {
                    target == "testkit"
                        || target == name
                        || allowed.normal.contains(&target)
                        || allowed.dev.contains(&target)
                }
            };
            if !fine {
                let place = match kind {
                    Kind::Normal => "[dependencies]",
                    Kind::Dev => "[dev-dependencies]",
                };
                problems.push(format!(
                    "{name} -> {target}: this edge is not allowed; take {target} out of the \
                     {place} of {name}, or record the decision and list the edge in \
                     xtask/src/direction.rs"
                ));
            }
        }
    }
    problems
}

/// Rows of the list that no crate uses.
fn unused_edges(
    edges: &BTreeMap<String, BTreeSet<(String, Kind)>>,
    allowed: &[Allowed],
) -> Vec<String> {
    let mut problems = Vec::new();
    for Allowed { name, normal, dev } in allowed {
        let used = edges.get(*name).into_iter().flatten();
        let used: BTreeSet<(&str, Kind)> = used.map(|(to, kind)| (&**to, *kind)).collect();
        let normal = normal.iter().filter(|to| {
            !used.contains(&(**to, Kind::Normal)) && !used.contains(&(**to, Kind::Dev))
        });
        let dev = dev.iter().filter(|to| !used.contains(&(**to, Kind::Dev)));
        problems.extend(normal.chain(dev).map(|to| {
            format!("{name} -> {to}: no longer used; remove it from xtask/src/direction.rs")
        }));
    }
    problems
}

fn unwanted(krate: &str, absent: &[&str], tree: &str) -> Vec<String> {
    let found: BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| absent.contains(name))
        .collect();
    found
        .into_iter()
        .map(|name| {
            format!(
                "{krate} uses {name} somewhere below; find it with \
                 `cargo tree --package {krate} --edges normal --invert {name}` and take it out"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &[Allowed] = &[
        Allowed {
            name: "core",
            normal: &[],
            dev: &[],
        },
        Allowed {
            name: "shell",
            normal: &["core"],
            dev: &["fake"],
        },
        Allowed {
            name: "fake",
            normal: &["core"],
            dev: &[],
        },
        Allowed {
            name: "testkit",
            normal: &[],
            dev: &[],
        },
    ];

    /// `edges` are `from>to` for a normal and `from~to` for a dev dependency.
    fn check(members: &[&str], edges_text: &[&str]) -> Vec<String> {
        let packages: Vec<Value> = members
            .iter()
            .map(|member| {
                let dependencies: Vec<Value> = edges_text
                    .iter()
                    .filter_map(|edge| {
                        let kind = if edge.contains('~') {
                            "dev".into()
                        } else {
                            Value::Null
                        };
                        let (from, to) = edge.split_once(['>', '~'])?;
                        (from == *member).then(|| serde_json::json!({ "name": to, "kind": kind }))
                    })
                    .collect();
                serde_json::json!({ "name": member, "dependencies": dependencies })
            })
            .collect();
        wrong_edges(&edges(&serde_json::json!({ "packages": packages })), LIST)
    }

    #[test]
    fn listed_edges_pass_and_libraries_are_not_edges() {
        let edges = [
            "shell>core",
            "shell~fake",
            "shell~testkit",
            "core~core",
            "core>serde",
        ];
        assert_eq!(
            check(&["core", "shell", "fake", "testkit"], &edges),
            [""; 0]
        );
    }

    #[test]
    fn an_edge_against_the_direction_is_named() {
        let problems = check(&["core", "shell"], &["core>shell"]);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("core -> shell"), "{problems:?}");
    }

    #[test]
    fn a_test_edge_in_the_product_is_refused() {
        assert_eq!(check(&["core", "shell", "fake"], &["shell>fake"]).len(), 1);
        assert_eq!(check(&["core", "testkit"], &["core>testkit"]).len(), 1);
    }

    #[test]
    fn an_unlisted_crate_is_named() {
        let problems = check(&["stray"], &[]);
        assert!(
            problems[0].starts_with("stray: not in the list"),
            "{problems:?}"
        );
    }

    #[test]
    fn unused_row_is_named() {
        let kinds = |kind| BTreeMap::from([("a".into(), BTreeSet::from([("b".into(), kind)]))]);
        let row = |normal, dev| {
            let name = "a";
            [Allowed { name, normal, dev }]
        };
        let normal = kinds(Kind::Normal);
        assert_eq!(unused_edges(&normal, &row(&["b"], &[])), [""; 0]);
        assert_eq!(unused_edges(&kinds(Kind::Dev), &row(&[], &["b"])), [""; 0]);
        assert_eq!(unused_edges(&normal, &row(&["b", "c"], &[])).len(), 1);
        assert_eq!(unused_edges(&normal, &row(&[], &["b"])).len(), 1);
    }

    #[test]
    fn a_library_far_below_is_found() {
        let tree = "kernel v0.1.0\nserde v1.0.0\nrand v0.10.0\nrand v0.10.0 (*)\nrandom v1.0.0";
        let problems = unwanted("kernel", &["tokio", "rand"], tree);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("kernel uses rand"), "{problems:?}");
    }
}
