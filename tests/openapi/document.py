"""Validates an OpenAPI document: its form, and every example against its schema.

Usage: document.py FILE. Prints each mistake with its place and exits with 1 when there is one.
"""

import json
import sys

from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

path = sys.argv[1]
with open(path, encoding="utf-8") as file:
    document = json.load(file)

mistakes = [f"{'/'.join(map(str, error.absolute_path))}: {error.message}"
            for error in OpenAPIV31SpecValidator(document).iter_errors()]

# Only what JSON can say: an example of bytes stands for itself.
registry = Registry().with_resource("", Resource(contents=document, specification=DRAFT202012))
# (Resolved against the document itself, which has no address.)


def check(place, schema, value):
    validator = OAS31Validator(schema, registry=registry, _resolver=registry.resolver())
    for error in validator.iter_errors(value):
        where = "/".join(map(str, error.absolute_path))
        mistakes.append(f"{place}: the example is not as its schema says, at /{where}: {error.message[:300]}")


def examples(content):
    if "example" in content:
        yield content["example"]
    for example in content.get("examples", {}).values():
        if "value" in example:
            yield example["value"]


count = 0
for route, item in document["paths"].items():
    for method, operation in item.items():
        bodies = [("request", operation.get("requestBody", {}))]
        bodies += [(f"answer {status}", answer) for status, answer in operation["responses"].items()]
        for name, body in bodies:
            for kind, content in body.get("content", {}).items():
                for example in examples(content):
                    count += 1
                    if "schema" in content:
                        check(f"{method.upper()} {route}, {name} ({kind})", content["schema"], example)
for name, schema in document["components"]["schemas"].items():
    if "example" in schema:
        count += 1
        check(f"schema {name}", {"$ref": f"#/components/schemas/{name}"}, schema["example"])

if mistakes:
    sys.exit(f"{len(mistakes)} mistakes in {path}:\n" + "\n".join(mistakes))
print(f"{path} is valid OpenAPI 3.1, and so are its {count} examples.")
