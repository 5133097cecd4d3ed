//! What is written down about the API agrees with it.

use std::path::PathBuf;

use roundsman_web::problem::Code;
use serde_json::Value;

fn docs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

#[test]
fn the_committed_description_is_current() {
    let committed = std::fs::read_to_string(docs().join("openapi.json")).unwrap_or_default();
    let current = roundsman_web::openapi_json();
    let differs = committed.lines().zip(current.lines()).position(|(old, new)| old != new);
    assert!(
        committed == current,
        "docs/openapi.json is out of date (line {}); run: cargo run -p roundsman -- openapi > docs/openapi.json",
        differs.map_or(committed.lines().count(), |line| line + 1)
    );
}

#[test]
fn the_guide_explains_every_code() {
    let guide = std::fs::read_to_string(docs().join("api.md")).unwrap();
    for code in Code::ALL {
        let row = format!("| `{}` | {} |", code.word(), code.status().as_u16());
        assert!(guide.contains(&row), "docs/api.md lacks a row that begins {row}");
    }
}

#[test]
fn the_guide_names_every_route() {
    let guide = std::fs::read_to_string(docs().join("api.md")).unwrap();
    let document: Value = serde_json::from_str(&roundsman_web::openapi_json()).unwrap();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let route = format!("`{} {path}`", method.to_uppercase());
            assert!(guide.contains(&route), "docs/api.md lacks {route}");
        }
    }
}

#[test]
fn the_description_is_complete() {
    let document: Value = serde_json::from_str(&roundsman_web::openapi_json()).unwrap();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let schemas = &document["components"]["schemas"];
    let mut references = Vec::new();
    collect_references(&document, &mut references);
    for reference in references {
        let name = reference.rsplit('/').next().unwrap();
        assert!(schemas.get(name).is_some(), "{reference} leads nowhere");
    }
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let place = format!("{method} {path}");
            assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{place}");
            assert_eq!(operation["tags"].as_array().unwrap().len(), 1, "{place}");
            for (status, response) in operation["responses"].as_object().unwrap() {
                assert!(!response["description"].as_str().unwrap().is_empty(), "{place} {status}");
                let content = response["content"].as_object();
                assert!(
                    matches!(status.as_str(), "101" | "204" | "304")
                        || content.is_some_and(|c| !c.is_empty()),
                    "{place} {status}"
                );
            }
        }
    }
}

fn collect_references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match value.as_str() {
                    Some(text) if name == "$ref" => found.push(text.to_owned()),
                    _ => collect_references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, found)),
        _ => {}
    }
}
