"""An agent that returns the chat it had, in the OpenAI form: tool calls are read from it."""

import json

import assay


def agent(prompt: str) -> list[dict[str, object]]:
    """A chat as a loop round a model would leave it."""
    arguments = json.dumps({"a": 2, "b": 40})
    return [
        {"role": "user", "content": prompt},
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "add", "arguments": arguments}}]},
        {"role": "tool", "tool_call_id": "1", "content": "42"},
        {"role": "assistant", "content": "It is 42."},
    ]


if __name__ == "__main__":
    assay.main(agent)
