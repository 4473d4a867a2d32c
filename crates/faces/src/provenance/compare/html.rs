//! A comparison as a self-contained page, without a script.

use std::fmt::Write as _;

use serde_json::Value;

use super::lines::{Line, side_by_side};
use super::report::Comparison;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:78rem;margin:2rem auto;padding:0 1rem;\
color:#1d2430;background:#fff}h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:2rem}table{border-collapse:\
collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.25rem .6rem;border-bottom:1px solid #e3e6eb}\
.pass{color:#13693a}.fail{color:#a11c2b}.lines td{font:13px/1.45 ui-monospace,monospace;white-space:pre-wrap;\
overflow-wrap:anywhere;width:50%}.gone{background:#fdecee}.new{background:#e9f7ee}.dim{color:#68717f}\
@media(prefers-color-scheme:dark){body{color:#dfe4ec;background:#14181f}td,th{border-color:#2b313b}\
.pass{color:#63d297}.fail{color:#ff8592}.gone{background:#3b1d23}.new{background:#17331f}}";

/// The page of a comparison, with the two responses next to each other.
pub fn page(found: &Comparison, a: &str, b: &str) -> String {
    let mut page = String::new();
    let status = found
        .match_status
        .map_or("not comparable", |status| status.as_str());
    let (class, word) = match (found.pass, found.needs_review()) {
        (true, _) => ("pass", "pass"),
        (false, true) => ("fail", "needs review"),
        (false, false) => ("fail", "fail"),
    };
    let strategy = found.strategy.as_str();
    let (one, other) = (escape(&found.a), escape(&found.b));
    let _ = write!(
        page,
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=\
         device-width\"><title>{status}</title><style>{STYLE}</style><h1>{status}, strategy {strategy}: \
         <span class={class}>{word}</span></h1><p class=dim>{one} and {other}</p>"
    );
    if let Some(first) = &found.first_divergence {
        let step = first
            .step
            .map_or(String::new(), |step| format!(", tool call {step}"));
        let line = first
            .line
            .map_or(String::new(), |line| format!(", line {line}"));
        let path = first
            .path
            .as_deref()
            .map_or(String::new(), |path| format!(" at {}", escape(path)));
        let tool = first
            .tool
            .as_deref()
            .map_or(String::new(), |tool| format!(" of {}", escape(tool)));
        let _ = write!(
            page,
            "<h2>First divergence</h2><p>{}{step}{line}: {}{tool}{path}</p>",
            first.field,
            escape(&first.what)
        );
        rows(
            &mut page,
            &[(
                String::new(),
                text(first.a.as_ref()),
                text(first.b.as_ref()),
            )],
        );
    }
    let _ = write!(
        page,
        "<h2>Fields</h2><table><tr><td>outputs.response<td>{}",
        level(found.response)
    );
    for field in &found.fields {
        let _ = write!(page, "<tr><td>{}<td>{}", field.field, level(field.level));
    }
    page.push_str("</table>");
    let differs = |list: &[super::drift::Difference]| {
        let list = list.iter();
        list.map(|row| (row.path.clone(), text(row.a.as_ref()), text(row.b.as_ref())))
            .collect::<Vec<_>>()
    };
    if !found.drift.is_empty() {
        page.push_str("<h2>Different before anything ran</h2>");
        rows(&mut page, &differs(&found.drift));
    }
    let entries: Vec<_> = found
        .fields
        .iter()
        .flat_map(|field| differs(&field.differences))
        .collect();
    if !entries.is_empty() {
        page.push_str("<h2>Artifacts</h2>");
        rows(&mut page, &entries);
    }
    let metrics = found
        .metrics
        .iter()
        .map(|m| (m.metric.to_owned(), m.a.to_string(), m.b.to_string()));
    let metrics: Vec<_> = metrics.collect();
    if !metrics.is_empty() {
        page.push_str("<h2>Metrics</h2>");
        rows(&mut page, &metrics);
    }
    if a != b {
        page.push_str("<h2>Responses</h2><table class=lines>");
        for line in side_by_side(a, b) {
            let _ = match line {
                Line::Same(text) => write!(page, "<tr><td>{0}<td>{0}", escape(&text)),
                Line::Changed(a, b) => {
                    write!(
                        page,
                        "<tr><td class=gone>{}<td class=new>{}",
                        escape(&a),
                        escape(&b)
                    )
                }
                Line::Gone(a) => write!(page, "<tr><td class=gone>{}<td>", escape(&a)),
                Line::New(b) => write!(page, "<tr><td><td class=new>{}", escape(&b)),
                Line::LeftOut(count) => {
                    write!(
                        page,
                        "<tr><td colspan=2 class=dim>{count} lines are the same"
                    )
                }
            };
        }
        page.push_str("</table>");
    }
    page.push_str("</html>\n");
    page
}

fn level(level: super::super::ladder::Level) -> String {
    let word = serde_json::to_value(level).unwrap_or_default();
    word.as_str().unwrap_or_default().replace('_', " ")
}

fn rows(page: &mut String, rows: &[(String, String, String)]) {
    page.push_str("<table>");
    for (name, a, b) in rows {
        let _ = write!(
            page,
            "<tr><th>{}<td>{}<td>{}",
            escape(name),
            escape(a),
            escape(b)
        );
    }
    page.push_str("</table>");
}

fn text(value: Option<&Value>) -> String {
    match value {
        None => "\u{2014}".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

fn escape(text: &str) -> String {
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}
