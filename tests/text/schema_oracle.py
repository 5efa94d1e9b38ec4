"""Checks texts against their schemas with jsonschema, formats included. Usage: schema_oracle.py FILE, where a line is
{"schema": ..., "texts": [...]}. Prints the texts that are invalid; exit code 1 when there are any."""
import json
import sys

import jsonschema

bad = checked = 0
for line in open(sys.argv[1], encoding="utf-8"):
    case = json.loads(line)
    validator = jsonschema.Draft202012Validator(case["schema"], format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    for text in case["texts"]:
        checked += 1
        try:
            errors = [error.message for error in validator.iter_errors(json.loads(text))]
            json.loads(text).__repr__().encode()  # no lone surrogates
        except ValueError as error:
            errors = [str(error)]
        if errors:
            bad += 1
            print(f"{json.dumps(case['schema'])}: {text!r}: {errors[0][:200]}")
print(f"{checked} texts, {bad} invalid")
sys.exit(1 if bad else 0)
