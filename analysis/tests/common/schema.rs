//! Whether an answer is as its JSON Schema says: as much of that language as the schema uses.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// Fails where an answer is not as `docs/report.schema.json` says.
pub fn judge(answer: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/report.schema.json");
    let text = fs::read_to_string(path).expect("the schema");
    let whole: Value = serde_json::from_str(&text).expect("JSON");
    check(answer, &whole, &whole, "the answer");
}

fn check(value: &Value, schema: &Value, whole: &Value, place: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.trim_start_matches('#');
        let target = whole.pointer(pointer).expect("what is referred to");
        return check(value, target, whole, place);
    }
    if let Some(constant) = schema.get("const") {
        assert_eq!(value, constant, "{place}");
    }
    if let Some(values) = schema["enum"].as_array() {
        assert!(values.contains(value), "{place}: {value}");
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    };
    let is_one = types.iter().any(|kind| is_of(value, kind));
    assert!(
        types.is_empty() || is_one,
        "{place}: {value} is none of {types:?}"
    );
    for item in value.as_array().into_iter().flatten() {
        check(item, &schema["items"], whole, &format!("{place}[]"));
    }
    let Some(object) = value.as_object() else {
        return;
    };
    for key in schema["required"].as_array().into_iter().flatten() {
        let key = key.as_str().expect("a key");
        assert!(object.contains_key(key), "{place} has no {key}: {value}");
    }
    for (key, inner) in object {
        let of_key = schema["properties"].get(key);
        let of_key = of_key.unwrap_or_else(|| panic!("{place} has {key}, the schema has not"));
        check(inner, of_key, whole, &format!("{place}.{key}"));
    }
}

fn is_of(value: &Value, kind: &Value) -> bool {
    match kind.as_str() {
        Some("null") => value.is_null(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_u64(),
        Some("number") => value.is_number(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => panic!("a type that is not understood: {kind}"),
    }
}
