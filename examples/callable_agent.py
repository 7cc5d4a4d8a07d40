"""An agent that is a function: it returns its answer and the calls it made."""

import assay


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def agent(prompt: str) -> dict[str, object]:
    """Answer with the sum of the numbers in the prompt."""
    a, b = (int(word.strip("?")) for word in prompt.split() if word.strip("?").isdigit())
    call = {"name": "add", "args": {"a": a, "b": b}, "result": str(add(a, b))}
    return {"output": f"It is {add(a, b)}.", "calls": [call]}


if __name__ == "__main__":
    assay.main(agent)
