//! Source files as syntax trees.

use std::path::{Path, PathBuf};

use syn::{Attribute, Expr, ExprLit, File, Lit, LitStr, Meta};

use super::root;

/// The source files of a crate in the order of their paths, without those of tests.
pub(super) fn files(package: &str) -> Vec<(String, File)> {
    let folder = root().join("crates").join(package).join("src");
    let mut paths = Vec::new();
    walk(&folder, &mut paths);
    paths.sort();
    let is_test = |path: &Path| path.to_string_lossy().contains("/tests");
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path
            .strip_prefix(&folder)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        (name, syn::parse_file(&text).unwrap())
    };
    paths
        .into_iter()
        .filter(|path| !is_test(path))
        .map(read)
        .collect()
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
}

/// The doc comment, as one line.
pub(super) fn docs(attributes: &[Attribute]) -> String {
    let lines = attributes
        .iter()
        .filter_map(|attribute| match &attribute.meta {
            Meta::NameValue(pair) if pair.path.is_ident("doc") => text_of(&pair.value),
            _ => None,
        });
    let lines: Vec<String> = lines.map(|line| line.trim().to_owned()).collect();
    let text = lines.join(" ").trim().to_owned();
    unlinked(&text)
}

/// A doc comment without the brackets of links to items.
fn unlinked(text: &str) -> String {
    text.replace("[`", "`").replace("`]", "`")
}

/// Whether a test configuration guards an item.
pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|path| path.is_ident("test"))
    })
}

/// A value of a `#[serde(…)]` attribute.
pub(super) fn serde(attributes: &[Attribute], name: &str) -> Option<String> {
    let mut found = None;
    for attribute in attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("serde"))
    {
        let read = attribute.parse_nested_meta(|meta| {
            let value = if meta.input.peek(syn::Token![=]) {
                Some(meta.value()?.parse::<LitStr>()?.value())
            } else {
                None
            };
            if meta.path.is_ident(name) {
                found = Some(value.unwrap_or_default());
            }
            Ok(())
        });
        read.unwrap();
    }
    found
}

/// The text of a literal, or of the format string that makes it; none where it is computed.
pub(super) fn text_of(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text.value()),
        Expr::Macro(call) if call.mac.path.is_ident("format") => {
            let arguments = call.mac.parse_body_with(
                syn::punctuated::Punctuated::<Expr, syn::Token![,]>::parse_terminated,
            );
            text_of(arguments.ok()?.first()?)
        }
        Expr::MethodCall(call) => text_of(&call.receiver),
        Expr::Reference(reference) => text_of(&reference.expr),
        _ => None,
    }
}
