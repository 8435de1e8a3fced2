//! Placeholders, and when something is like something else.

use std::collections::HashMap;

use regex::{Captures, Regex};
use serde_json::Value;

/// A value with its placeholders replaced. A name that was not kept stays: shells write variables so.
pub(super) fn filled(value: &Value, kept: &HashMap<String, Value>) -> Value {
    let placeholder = Regex::new(r"\$\{(\w+)\}").unwrap();
    match value {
        Value::String(text) => {
            if let Some(found) = placeholder.captures(text)
                && found[0].len() == text.len()
                && let Some(value) = kept.get(&found[1])
            {
                return value.clone();
            }
            let replaced =
                placeholder.replace_all(text, |found: &Captures<'_>| match kept.get(&found[1]) {
                    Some(Value::String(text)) => text.clone(),
                    Some(value) => value.to_string(),
                    None => found[0].to_owned(),
                });
            replaced.into_owned().into()
        }
        Value::Array(items) => items.iter().map(|item| filled(item, kept)).collect(),
        Value::Object(members) => {
            let fill = |(name, value): (&String, &Value)| (name.clone(), filled(value, kept));
            members.iter().map(fill).collect()
        }
        other => other.clone(),
    }
}

/// A part of a result, by keys and indices joined by dots.
pub(super) fn part<'a>(value: &'a Value, path: &str) -> &'a Value {
    let keys = path.split('.').filter(|key| !key.is_empty());
    keys.fold(value, |value, key| match value {
        Value::Array(items) => &items[key.parse::<usize>().unwrap()],
        value => &value[key],
    })
}

/// An expectation without one of its members.
pub(super) fn without(mut wanted: Value, member: &str) -> Value {
    if let Some(members) = wanted.as_object_mut() {
        members.remove(member);
    }
    wanted
}

/// Why a value is not like what is wanted.
pub(super) fn unlike(got: &Value, wanted: &Value, place: &str) -> Result<(), String> {
    match wanted {
        Value::Object(members) => {
            if let Some((test, operand)) = members
                .iter()
                .next()
                .filter(|(name, _)| members.len() == 1 && name.starts_with('$'))
            {
                return if holds(got, test, operand) {
                    Ok(())
                } else {
                    Err(format!("{place}: {got} fails {test} {operand}"))
                };
            }
            if !got.is_object() {
                return Err(format!("{place}: {got} is no object"));
            }
            members.iter().try_for_each(|(name, wanted)| {
                unlike(&got[name], wanted, &format!("{place}.{name}"))
            })
        }
        Value::Array(wanted) => match got.as_array() {
            Some(items) if items.len() == wanted.len() => {
                let mut pairs = items.iter().zip(wanted).enumerate();
                pairs.try_for_each(|(at, (got, wanted))| {
                    unlike(got, wanted, &format!("{place}.{at}"))
                })
            }
            _ => Err(format!("{place}: {got} has not the length of {wanted:?}")),
        },
        // One that is whole is the same with a fraction of nothing.
        Value::Number(number) if got.as_f64() == number.as_f64() => Ok(()),
        wanted if got == wanted => Ok(()),
        wanted => Err(format!("{place}: {got} is not {wanted}")),
    }
}

fn holds(got: &Value, test: &str, operand: &Value) -> bool {
    let within = |least: f64, most: f64| {
        got.as_f64()
            .is_some_and(|got| (least..=most).contains(&got))
    };
    let bound = || operand.as_f64().unwrap();
    match test {
        "$type" => match operand.as_str().unwrap() {
            "string" => got.is_string(),
            "number" => got.is_number(),
            "boolean" => got.is_boolean(),
            "object" => got.is_object(),
            "list" => got.is_array(),
            other => panic!("there is no type {other:?}"),
        },
        "$matches" => {
            let pattern = Regex::new(operand.as_str().unwrap()).unwrap();
            got.as_str().is_some_and(|got| pattern.is_match(got))
        }
        "$contains" => match got {
            Value::String(got) => got.contains(operand.as_str().unwrap()),
            Value::Array(items) => items.iter().any(|item| unlike(item, operand, "").is_ok()),
            _ => false,
        },
        "$excludes" => (got.is_string() || got.is_array()) && !holds(got, "$contains", operand),
        "$length" => {
            let length = match got {
                Value::String(got) => got.chars().count(),
                Value::Array(items) => items.len(),
                _ => return false,
            };
            operand.as_u64() == Some(length as u64)
        }
        "$at_least" => within(bound(), f64::MAX),
        "$at_most" => within(f64::MIN, bound()),
        "$not" => unlike(got, operand, "").is_err(),
        other => panic!("there is no test {other:?}"),
    }
}

#[test]
fn likeness_is_as_the_readme_says() {
    let value = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
    for (got, wanted, expected) in [
        (r#"{"a": 1, "b": 2}"#, r#"{"a": 1, "c": null}"#, true),
        (r#"{"a": 1}"#, r#"{"a": null}"#, false),
        (r#"{"a": 1}"#, r#"{"a": true}"#, false),
        ("[1, 2]", "[1]", false),
        ("[1, 2]", r#"{"$contains": 2}"#, true),
        (r#""abc""#, r#"{"$excludes": "d"}"#, true),
        ("null", r#"{"$excludes": "d"}"#, false),
        (r#""grüße""#, r#"{"$length": 5}"#, true),
        ("3", r#"{"$at_least": 3}"#, true),
        ("4", r#"{"$at_most": 3}"#, false),
        (r#""a1""#, r#"{"$matches": "^a\\d$"}"#, true),
        ("0", r#"{"$not": 0}"#, false),
    ] {
        let like = unlike(&value(got), &value(wanted), "").is_ok();
        assert_eq!(like, expected, "{got} and {wanted}");
    }
    let kept = HashMap::from([("n".to_owned(), value("7"))]);
    let text = value(r#"["${n}", "a${n}", "${HOME}"]"#);
    assert_eq!(filled(&text, &kept), value(r#"[7, "a7", "${HOME}"]"#));
}
