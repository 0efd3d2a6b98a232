//! Handles with names: each place that calls a handle by its name gets the handle itself.

use std::collections::HashMap;

use serde_json::{Map, Value as Json};

/// Fields that have handles, or lists of handles.
const HANDLES: [&str; 18] = [
    "child",
    "children",
    "cold",
    "default_policy",
    "destination",
    "failover",
    "failoverTarget",
    "from",
    "l1",
    "l2",
    "normal",
    "route",
    "target",
    "to",
    "warm",
    "wildcard",
    "named_handles",
    "fallback",
];

/// Fields that have a table of handles.
const TABLES: [&str; 2] = ["policies", "operation_policies"];

/// The handles by their names.
type Named = HashMap<String, Json>;

/// Puts handles in the places that call them by their names. A handle has a name in `named_handles`, or wherever it is
/// written with a field `name`.
pub(super) fn put_in_place(file: &mut Json) {
    let mut named = Named::new();
    if let Some(handles) = file["named_handles"].as_object() {
        named.extend(handles.iter().map(|(name, handle)| (name.clone(), handle.clone())));
    }
    for field in ["named_handles", "route", "routes"] {
        collect(&file[field], &mut named);
    }
    for field in ["route", "routes"] {
        if !file[field].is_null() {
            expand(&mut file[field], field == "route", &named, &mut Vec::new());
        }
    }
}

/// Adds the handles of a tree that have a name.
fn collect(tree: &Json, named: &mut Named) {
    match tree {
        Json::Array(elements) => elements.iter().for_each(|element| collect(element, named)),
        Json::Object(fields) => {
            if let Some(name) = name_of(fields) {
                named.entry(name.to_owned()).or_insert_with(|| tree.clone());
            }
            fields.values().for_each(|value| collect(value, named));
        }
        _ => {}
    }
}

/// Returns the name of a handle. (A pool that is written in its handle has a name too, and no type.)
fn name_of(fields: &Map<String, Json>) -> Option<&str> {
    fields.get("type")?;
    fields.get("name")?.as_str()
}

/// Puts handles in the places of their names in a tree, which is a handle, or a list of them, if `is_handle`. A name
/// within the handle of this name (of `open`) stays: the handle would have no end.
fn expand(tree: &mut Json, is_handle: bool, named: &Named, open: &mut Vec<String>) {
    let called = tree.as_str().filter(|_| is_handle).and_then(|text| called(text, named));
    if let Some((name, handle)) = called.filter(|(name, _)| !open.contains(name)) {
        open.push(name);
        *tree = handle;
        expand(tree, is_handle, named, open);
        open.pop();
        return;
    }
    match tree {
        Json::Array(elements) => elements.iter_mut().for_each(|one| expand(one, is_handle, named, open)),
        Json::Object(fields) => {
            if name_of(fields).is_some() {
                fields.remove("name");
            }
            for (field, value) in fields {
                match value.as_object_mut().filter(|_| TABLES.contains(&field.as_str())) {
                    Some(handles) => handles.values_mut().for_each(|one| expand(one, true, named, open)),
                    None => expand(value, HANDLES.contains(&field.as_str()), named, open),
                }
            }
        }
        _ => {}
    }
}

/// Returns the name and the handle that a text calls: alone, or as the one under another handle (`LoggingRoute|NAME`).
fn called(text: &str, named: &Named) -> Option<(String, Json)> {
    if let Some(handle) = named.get(text) {
        return Some((text.to_owned(), handle.clone()));
    }
    let (kind, name) = text.split_once('|')?;
    let handle = named.get(name).filter(|_| !["Pool", "PoolRoute", "HashRoute"].contains(&kind))?;
    Some((name.to_owned(), serde_json::json!({ "type": kind, "children": [handle] })))
}
