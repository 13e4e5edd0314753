"""Makes more of the fuzzer's requests reach something: an app that exists, and runs that exist."""

import json
import random

import schemathesis

RUNS = ["first", "second", "third"]


def dice(value):
    """The same request is changed in the same way each time."""
    return random.Random(json.dumps(value, sort_keys=True, default=repr))


@schemathesis.hook
def map_body(context, body):
    if context.operation.label == "POST /v1/runs" and isinstance(body, dict):
        roll = dice(body)
        if "app" in body and roll.random() < 0.7:
            body["app"] = "practice"
        if isinstance(body.get("run_id"), str) and roll.random() < 0.5:
            body["run_id"] = roll.choice(RUNS)
        if isinstance(body.get("session"), str) and roll.random() < 0.5:
            body.update(session="talk", user="local")
    return body


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    known = {"run_id": dice(path_parameters).choice(RUNS), "app": "practice", "user": "local", "session": "talk"}
    if path_parameters and dice([path_parameters]).random() < 0.5:
        path_parameters.update((name, known[name]) for name in path_parameters if name in known)
    return path_parameters
