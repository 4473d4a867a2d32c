//! The HTTP routes and the bodies of requests, from the OpenAPI documents that a server serves.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{cell, check_page, head, row, schema};
use crate::secrets::send;
use crate::serving::{Serving, lab};

/// A title, the address, and what follows the names of bodies, so that they differ.
const DOCUMENTS: &[(&str, &str, &str)] = &[
    ("OpenWOP 1 and extensions", "/v1/openapi.json", ""),
    ("OpenWOP 2", "/openapi.json", " of OpenWOP 2"),
    ("LLM Workbench", "/api/openapi.json", ""),
];

#[test]
fn reference_of_routes_is_current() {
    let lab = lab();
    let serving = Serving::start(&lab, &[]);
    let mut text = String::from(
        "A request needs a key with the scope of its route, where the table names one. A route \
         marked \"key once\" takes an `Idempotency-Key`: equal requests with one key have one \
         effect and one answer.\n\n",
    );
    for (title, address, suffix) in DOCUMENTS {
        let (status, document) = send(&serving, "", "GET", address, "");
        assert_eq!(status, 200, "{address}");
        let document = serde_json::from_str(&document).unwrap();
        text.push_str(&format!("## {title}\n\nFrom `GET {address}`.\n\n"));
        describe(&document, suffix, &mut text);
    }
    serving.stop();
    check_page("routes.md", "HTTP routes", &text);
}

fn describe(document: &Value, suffix: &str, text: &mut String) {
    text.push_str(&head(&[
        "Route",
        "Scope",
        "Description",
        "Query and headers",
        "Body",
    ]));
    let mut bodies = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let body = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
            let body = body.as_str().and_then(|name| name.rsplit('/').next());
            bodies.extend(body);
            let scope = match &operation["x-runwright-scope"] {
                Value::String(scope) => format!("`{scope}`"),
                _ => "none".to_owned(),
            };
            let cells = [
                format!("`{} {path}`", method.to_uppercase()),
                scope,
                cell(operation["summary"].as_str().unwrap()),
                parameters(operation),
                body.map_or_else(String::new, |body| {
                    let anchor = format!("{body}{suffix}").replace(' ', "-");
                    format!("[{body}](#{})", anchor.to_lowercase())
                }),
            ];
            text.push_str(&row(&cells.each_ref().map(String::as_str)));
        }
    }
    text.push('\n');
    for name in bodies {
        let schema = &document["components"]["schemas"][name];
        let table = schema::table(schema);
        let none = "See the OpenAPI document.\n\n";
        let table = if table.is_empty() { none } else { &table };
        text.push_str(&format!("### {name}{suffix}\n\n{table}"));
    }
}

fn parameters(operation: &Value) -> String {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    // Every address of OpenWOP 2 reads the version, and none needs it.
    let is_told = |parameter: &&Value| {
        parameter["in"] != json!("path") && parameter["name"] != json!("OpenWOP-Version")
    };
    let named = parameters.filter(is_told);
    let names: Vec<String> = named
        .map(|parameter| match parameter["name"].as_str().unwrap() {
            "Idempotency-Key" => "key once".to_owned(),
            name => format!("`{name}`"),
        })
        .collect();
    names.join(", ")
}
