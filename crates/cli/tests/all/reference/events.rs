//! The kinds of events with their fields, from the source of the kernel.

use std::collections::BTreeMap;

use syn::{Attribute, Fields, GenericArgument, Item, ItemEnum, PathArguments, Type};

use super::source::{docs, files, serde};
use super::{cell, check_page, head, row};

/// The streams in the order of the page: the folder of the kernel and the title.
const STREAMS: &[(&str, &str)] = &[
    ("run", "Runs"),
    ("coordinator", "Coordinators of queues and runtimes"),
    ("document", "Documents of the Workbench"),
    ("registry", "Registries of tenants"),
    ("notes", "Notes on runs"),
    ("delivery", "Deliveries of webhooks"),
    ("audit", "Audit trails"),
];

#[test]
fn reference_of_events_is_current() {
    let files = files("kernel");
    let mut structs: BTreeMap<String, (Fields, Vec<Attribute>)> = BTreeMap::new();
    for item in files.iter().flat_map(|(_, file)| &file.items) {
        if let Item::Struct(item) = item {
            let parts = (item.fields.clone(), item.attrs.clone());
            structs.insert(item.ident.to_string(), parts);
        }
    }
    let mut text = String::from(
        "The kinds of events by stream, as they are stored. \
         [The event format](../design/event-format.md) describes the envelope, the hash chain and \
         the rules of compatibility. A `?` marks a field that may be absent.\n\n",
    );
    for (folder, title) in STREAMS {
        text.push_str(&format!("## {title}\n\n"));
        let before = text.len();
        let is_there =
            |path: &str| path.starts_with(&format!("{folder}/")) && path.contains("event");
        for item in files
            .iter()
            .filter(|(path, _)| is_there(path))
            .flat_map(|(_, file)| &file.items)
        {
            match item {
                Item::Enum(item) if serde(&item.attrs, "tag").is_some() => {
                    kinds(item, &structs, &mut text);
                }
                _ => {}
            }
        }
        assert!(text.len() > before, "no events in {folder}");
    }
    check_page("events.md", "Events", &text);
}

fn kinds(item: &ItemEnum, structs: &BTreeMap<String, (Fields, Vec<Attribute>)>, text: &mut String) {
    for variant in &item.variants {
        let Some(name) = serde(&variant.attrs, "rename") else {
            continue;
        };
        text.push_str(&format!("### {name}\n\n{}\n\n", docs(&variant.attrs)));
        let all =
            serde(&variant.attrs, "rename_all").or_else(|| serde(&item.attrs, "rename_all_fields"));
        let rows = match (&variant.fields, payload(&variant.fields)) {
            (_, Some(payload)) => match structs.get(&payload) {
                Some((fields, attributes)) => {
                    rows(fields, serde(attributes, "rename_all").as_deref())
                }
                None => format!("The payload is of the type `{payload}`.\n"),
            },
            (fields, None) => rows(fields, all.as_deref()),
        };
        if rows.starts_with('|') {
            text.push_str(&head(&["Field", "Type", "Description"]));
        }
        text.push_str(&rows);
        if !rows.is_empty() {
            text.push('\n');
        }
    }
}

/// The one type of a tuple variant.
fn payload(fields: &Fields) -> Option<String> {
    let Fields::Unnamed(fields) = fields else {
        return None;
    };
    let of = type_of(&fields.unnamed.first()?.ty);
    Some(of.trim_end_matches('?').to_owned())
}

fn rows(fields: &Fields, rename_all: Option<&str>) -> String {
    let mut rows = String::new();
    for field in fields {
        let Some(ident) = &field.ident else {
            continue;
        };
        let name = match (serde(&field.attrs, "rename"), rename_all) {
            (Some(name), _) => name,
            (None, Some("camelCase")) => camel_case(&ident.to_string()),
            (None, _) => ident.to_string(),
        };
        let is_optional = serde(&field.attrs, "skip_serializing_if").is_some();
        let of = type_of(&field.ty);
        let of = if is_optional && !of.ends_with('?') {
            format!("{of}?")
        } else {
            of
        };
        let name = match serde(&field.attrs, "flatten") {
            Some(_) => "(its fields)".to_owned(),
            None => format!("`{name}`"),
        };
        rows.push_str(&row(&[&name, &cell(&of), &cell(&docs(&field.attrs))]));
    }
    rows
}

fn camel_case(name: &str) -> String {
    let mut parts = name.split('_');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (first, rest) = part.split_at(1);
        text.push_str(&first.to_uppercase());
        text.push_str(rest);
    }
    text
}

/// A type in words of JSON; a type of the kernel by its name.
fn type_of(of: &Type) -> String {
    let Type::Path(of) = of else {
        return "array".to_owned();
    };
    let Some(last) = of.path.segments.last() else {
        return String::new();
    };
    let inner: Vec<String> = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => {
            let types = arguments.args.iter().filter_map(|argument| match argument {
                GenericArgument::Type(of) => Some(type_of(of)),
                _ => None,
            });
            types.collect()
        }
        _ => Vec::new(),
    };
    let name = last.ident.to_string();
    match (name.as_str(), inner.as_slice()) {
        ("String", _) => "string".to_owned(),
        ("bool", _) => "boolean".to_owned(),
        ("u8" | "u16" | "u32" | "u64" | "usize" | "i64" | "f64", _) => "number".to_owned(),
        ("Value", _) => "any".to_owned(),
        ("Option", [inner]) => format!("{inner}?"),
        ("Vec" | "BTreeSet", [inner]) => format!("array of {inner}"),
        ("Box" | "Arc", [inner]) => inner.clone(),
        ("Map" | "BTreeMap", [.., inner]) => format!("object of {inner}"),
        (name, _) => name.to_owned(),
    }
}
