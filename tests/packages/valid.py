"""Ends with 1 and the reason unless a file is a CycloneDX 1.5 document by the published schema."""

import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

with open(sys.argv[1], encoding="utf-8") as file:
    wrong = JsonStrictValidator(SchemaVersion.V1_5).validate_str(file.read())
if wrong is not None:
    sys.exit(f"{sys.argv[1]}: {wrong}")
