"""A LangChain agent under test. The adapter is `LangChainAgent`; the model here is scripted, so that no key is needed.

pip install langchain
python examples/langchain_agent.py --suite examples/cases.yaml
"""

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

import assay


class LangChainAgent:
    """Runs a compiled LangChain (or LangGraph) agent once for each prompt."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def run(self, prompt: str) -> dict[str, object]:
        """The answer and the tool calls of one run."""
        messages = self.graph.invoke({"messages": [{"role": "user", "content": prompt}]})["messages"]
        results = {message.tool_call_id: message.text for message in messages if message.type == "tool"}
        calls = [
            {"name": call["name"], "args": call["args"], "id": call["id"], "result": results.get(call["id"], "")}
            for message in messages
            for call in getattr(message, "tool_calls", [])
        ]
        return {"output": messages[-1].text, "calls": calls}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class ScriptedModel(GenericFakeChatModel):
    """Says what it was given, and lets tools be bound to it."""

    def bind_tools(self, *_: Any, **__: Any) -> "ScriptedModel":
        """Needs none of them."""
        return self


def build() -> Any:
    """A new agent; its model calls the tool, then answers."""
    call = AIMessage("", tool_calls=[{"name": "add", "args": {"a": 2, "b": 40}, "id": "1"}])
    return create_agent(ScriptedModel(messages=iter([call, AIMessage("It is 42.")])), [add])


if __name__ == "__main__":
    assay.main(LangChainAgent(build()))
