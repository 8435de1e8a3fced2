//! JSON Schemas of arguments and results, in the plain form that all clients understand.
//!
//! No references, no `$schema`, no `null` beside a type: models and the clients between read those
//! differently, or not at all.

use rmcp::model::JsonObject;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// The schema of a type whose values are objects.
pub(crate) fn of<T: JsonSchema>() -> JsonObject {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let schema: Schema = settings.into_generator().into_root_schema_for::<T>();
    let mut value = schema.to_value();
    plain(&mut value);
    match value {
        Value::Object(mut object) => {
            // The tool has a description; that of the struct is for whoever reads the code.
            object.remove("title");
            object.remove("description");
            object
                .entry("properties")
                .or_insert_with(|| Value::Object(JsonObject::new()));
            object
        }
        _ => JsonObject::new(),
    }
}

/// Takes away what is only noise in a schema of arguments.
fn plain(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            // Lines are broken where the code's are.
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            // Formats such as uint64 are not of JSON Schema.
            if object.get("format").is_some_and(Value::is_string) {
                object.remove("format");
            }
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            if let Some(Value::Array(values)) = object.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
            object.values_mut().for_each(plain);
            // What is left of `anyOf: [T, null]` is T.
            if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
                choices.retain(|choice| choice.get("type") != Some(&Value::from("null")));
                if let [Value::Object(only)] = choices.as_mut_slice() {
                    let only = std::mem::take(only);
                    object.remove("anyOf");
                    for (key, inner) in only {
                        object.entry(key).or_insert(inner);
                    }
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(plain),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Arguments {
        /// Needed.
        name: String,
        /// Not needed.
        size: Option<u64>,
        choice: Option<Choice>,
    }

    #[derive(JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[expect(dead_code, reason = "only its schema is looked at")]
    enum Choice {
        One,
        Two,
    }

    #[test]
    fn is_plain() {
        let expected = serde_json::json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "description": "Needed."},
                "size": {"type": "integer", "minimum": 0, "description": "Not needed."},
                "choice": {"type": "string", "enum": ["one", "two"]},
            },
        });
        assert_eq!(Value::Object(of::<Arguments>()), expected);
    }
}
