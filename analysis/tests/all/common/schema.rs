//! Whether an answer is as its JSON Schema says: as much of that language as the schema uses.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// Fails where an answer is not as `docs/report.schema.json` says.
pub fn judge(answer: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/report.schema.json");
    let text = fs::read_to_string(path).expect("the schema");
    let whole: Value = serde_json::from_str(&text).expect("JSON");
    if let Err(problem) = check(answer, &whole, &whole, "the answer") {
        panic!("{problem}");
    }
}

type Checked = Result<(), String>;

fn ensure(holds: bool, problem: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(problem()) }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn check(value: &Value, schema: &Value, whole: &Value, place: &str) -> Checked {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.trim_start_matches('#');
        let target = whole.pointer(pointer).expect("what is referred to");
        return check(value, target, whole, place);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let choices = choices.iter().map(|one| check(value, one, whole, place));
        let problems: Vec<String> = choices.map_while(Result::err).collect();
        let is_none = problems.len() == list(&schema["anyOf"]).count();
        return ensure(!is_none, || problems.join("; or "));
    }
    if let Some(constant) = schema.get("const") {
        ensure(value == constant, || format!("{place}: {value}"))?;
    }
    if let Some(values) = schema["enum"].as_array() {
        ensure(values.contains(value), || format!("{place}: {value}"))?;
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    };
    let is_one = types.iter().any(|kind| is_of(value, kind));
    ensure(types.is_empty() || is_one, || {
        format!("{place}: {value} is none of {types:?}")
    })?;
    for item in list(value) {
        check(item, &schema["items"], whole, &format!("{place}[]"))?;
    }
    let Some(object) = value.as_object() else {
        return Ok(());
    };
    for key in list(&schema["required"]) {
        let key = key.as_str().expect("a key");
        ensure(object.contains_key(key), || {
            format!("{place} has no {key}: {value}")
        })?;
    }
    for (key, inner) in object {
        let of_key = schema["properties"].get(key);
        if of_key.is_none() && schema["additionalProperties"] == true {
            continue;
        }
        let Some(of_key) = of_key else {
            return Err(format!("{place} has {key}, the schema has not"));
        };
        check(inner, of_key, whole, &format!("{place}.{key}"))?;
    }
    Ok(())
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
