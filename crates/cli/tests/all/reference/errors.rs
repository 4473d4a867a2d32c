//! The codes of errors: of requests, of refused commands, of nodes and of documents.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{
    Expr, ExprCall, ExprMatch, ImplItem, ImplItemFn, ItemEnum, ItemFn, ItemImpl, ItemMod, Local,
    Pat,
};

use super::source::{docs, files, is_test, text_of};
use super::{cell, check_page, head, row};

#[test]
fn reference_of_errors_is_current() {
    let mut found = Found::default();
    for package in ["kernel", "runtime", "server"] {
        for (path, file) in files(package) {
            found.place = format!("{package}/{path}");
            found.visit_file(&file);
        }
    }
    let mut text = String::from(
        "Codes are stable; messages may change. `{…}` stands for a value. An error of a request is \
         `{\"error\": code, \"message\": …, \"details\": …}`.\n\n## Requests\n\n",
    );
    text.push_str(&head(&["Status", "Code", "Message"]));
    for ((status, code), messages) in &found.requests {
        let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
        let code = format!("`{code}`");
        text.push_str(&row(&[
            &status.to_string(),
            &code,
            &cell(&messages.join("; ")),
        ]));
    }
    text.push_str(
        "\n## Refused commands\n\nA refused command writes nothing. A request that a rule refuses has \
         the same code.\n\n",
    );
    text.push_str(&head(&["Code", "Message"]));
    text.push_str(&rows(&found.refusals));
    text.push_str(
        "\n## Nodes\n\nThe `error.code` of a node that failed. `core.fail` and workers choose codes of \
         their own.\n\n",
    );
    text.push_str(&head(&["Code", "Message"]));
    text.push_str(&rows(&found.nodes));
    text.push_str(
        "\n## Documents\n\nThe `code` of each problem of a workflow, a template or inputs.\n\n",
    );
    text.push_str(&head(&["Code", "Description"]));
    text.push_str(&rows(&found.documents));
    check_page("errors.md", "Error codes", &text);
}

fn rows(codes: &BTreeMap<String, BTreeSet<String>>) -> String {
    let row = |(code, messages): (&String, &BTreeSet<String>)| {
        let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
        row(&[&format!("`{code}`"), &cell(&messages.join("; "))])
    };
    codes.iter().map(row).collect()
}

#[derive(Default)]
struct Found {
    place: String,
    /// Texts of local variables of the function that is visited.
    locals: BTreeMap<String, String>,
    /// Messages of the variants of the enums of the file that is visited.
    variants: BTreeMap<String, String>,
    requests: BTreeMap<(u16, String), BTreeSet<String>>,
    refusals: BTreeMap<String, BTreeSet<String>>,
    nodes: BTreeMap<String, BTreeSet<String>>,
    documents: BTreeMap<String, BTreeSet<String>>,
}

impl Found {
    fn message(&self, expression: Option<&Expr>) -> Option<String> {
        let expression = expression?;
        text_of(expression).or_else(|| match expression {
            Expr::Path(path) => self
                .locals
                .get(&path.path.get_ident()?.to_string())
                .cloned(),
            _ => None,
        })
    }
}

impl<'ast> Visit<'ast> for Found {
    fn visit_file(&mut self, file: &'ast syn::File) {
        self.variants.clear();
        visit::visit_file(self, file);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.locals.clear();
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.locals.clear();
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_local(&mut self, local: &'ast Local) {
        let text = local.init.as_ref().and_then(|init| text_of(&init.expr));
        if let (Pat::Ident(name), Some(text)) = (&local.pat, text) {
            self.locals.insert(name.ident.to_string(), text);
        }
        visit::visit_local(self, local);
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        for variant in &item.variants {
            let error = variant
                .attrs
                .iter()
                .find(|attribute| attribute.path().is_ident("error"));
            let text = error.and_then(|attribute| {
                let arguments = attribute.parse_args_with(
                    syn::punctuated::Punctuated::<Expr, syn::Token![,]>::parse_terminated,
                );
                text_of(arguments.ok()?.first()?)
            });
            let text = text.unwrap_or_else(|| docs(&variant.attrs));
            self.variants.insert(variant.ident.to_string(), text);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let is_document =
            matches!(&*item.self_ty, syn::Type::Path(path) if path.path.is_ident("ProblemCode"));
        for member in &item.items {
            let ImplItem::Fn(function) = member else {
                continue;
            };
            let name = function.sig.ident.to_string();
            if name == "code" || (name == "as_str" && is_document) {
                let mut codes = Codes::default();
                codes.visit_impl_item_fn(function);
                for (variant, code) in codes.pairs {
                    let Some(text) = self.variants.get(&variant) else {
                        continue;
                    };
                    let into = if is_document {
                        &mut self.documents
                    } else {
                        &mut self.refusals
                    };
                    into.entry(code).or_default().insert(text.clone());
                }
            }
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        let arguments: Vec<&Expr> = call.args.iter().collect();
        let called = last_two(&call.func);
        match (
            called.as_ref().map(|(a, b)| (a.as_str(), b.as_str())),
            arguments.as_slice(),
        ) {
            (Some(("NodeError", "new")), [code, message]) => {
                if let Some(code) = text_of(code) {
                    let message = self.message(Some(message));
                    self.nodes.entry(code).or_default().extend(message);
                }
            }
            (Some((_, "new")), [status, code, rest @ ..]) => {
                let status = last_two(status).filter(|(owner, _)| owner == "StatusCode");
                if let (Some((_, status)), Some(code)) = (status, text_of(code)) {
                    let message = self.message(rest.first().copied());
                    let key = (number_of(&status), code);
                    self.requests.entry(key).or_default().extend(message);
                }
            }
            (Some((_, "unauthenticated")), [code, message]) => {
                if let Some(code) = text_of(code) {
                    let message = self.message(Some(message));
                    self.requests
                        .entry((401, code))
                        .or_default()
                        .extend(message);
                }
            }
            _ => {}
        }
        visit::visit_expr_call(self, call);
    }
}

/// The codes that the arms of a `match` give to variants.
#[derive(Default)]
struct Codes {
    pairs: Vec<(String, String)>,
}

impl<'ast> Visit<'ast> for Codes {
    fn visit_expr_match(&mut self, item: &'ast ExprMatch) {
        for arm in &item.arms {
            let mut names = Names::default();
            names.visit_pat(&arm.pat);
            let mut texts = Texts::default();
            texts.visit_expr(&arm.body);
            for name in names.0 {
                let pair = |text: &String| (name.clone(), text.clone());
                self.pairs.extend(texts.0.iter().map(pair));
            }
        }
    }
}

/// The variants that a pattern names.
#[derive(Default)]
struct Names(Vec<String>);

impl<'ast> Visit<'ast> for Names {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.0.extend(
            path.segments
                .last()
                .map(|segment| segment.ident.to_string()),
        );
    }
}

/// The texts in an expression.
#[derive(Default)]
struct Texts(Vec<String>);

impl<'ast> Visit<'ast> for Texts {
    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.0.push(text.value());
    }
}

/// The last two names of a path.
fn last_two(expression: &Expr) -> Option<(String, String)> {
    let Expr::Path(path) = expression else {
        return None;
    };
    let mut names = path
        .path
        .segments
        .iter()
        .rev()
        .map(|segment| segment.ident.to_string());
    let last = names.next()?;
    Some((names.next()?, last))
}

/// The number of a status by its name in the `http` crate.
fn number_of(name: &str) -> u16 {
    const NAMES: &[(&str, u16)] = &[
        ("BAD_REQUEST", 400),
        ("UNAUTHORIZED", 401),
        ("FORBIDDEN", 403),
        ("NOT_FOUND", 404),
        ("METHOD_NOT_ALLOWED", 405),
        ("NOT_ACCEPTABLE", 406),
        ("REQUEST_TIMEOUT", 408),
        ("CONFLICT", 409),
        ("GONE", 410),
        ("LENGTH_REQUIRED", 411),
        ("PRECONDITION_FAILED", 412),
        ("PAYLOAD_TOO_LARGE", 413),
        ("URI_TOO_LONG", 414),
        ("UNSUPPORTED_MEDIA_TYPE", 415),
        ("RANGE_NOT_SATISFIABLE", 416),
        ("EXPECTATION_FAILED", 417),
        ("MISDIRECTED_REQUEST", 421),
        ("UNPROCESSABLE_ENTITY", 422),
        ("PRECONDITION_REQUIRED", 428),
        ("TOO_MANY_REQUESTS", 429),
        ("REQUEST_HEADER_FIELDS_TOO_LARGE", 431),
        ("INTERNAL_SERVER_ERROR", 500),
        ("NOT_IMPLEMENTED", 501),
        ("SERVICE_UNAVAILABLE", 503),
        ("GATEWAY_TIMEOUT", 504),
        ("INSUFFICIENT_STORAGE", 507),
    ];
    let found = NAMES.iter().find(|(known, _)| *known == name);
    found.map_or_else(
        || panic!("add StatusCode::{name} to this table"),
        |(_, number)| *number,
    )
}
