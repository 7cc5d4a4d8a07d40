"""A Google ADK agent under test. The adapter is `AdkAgent`; the model here is scripted, so that no key is needed.

pip install google-adk
python examples/adk_agent.py --suite examples/cases.yaml
"""

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

import assay


class AdkAgent:
    """Runs an ADK agent in a new session for each prompt, so that nothing leaks from case to case."""

    def __init__(self, agent: Any) -> None:
        self.runner = InMemoryRunner(agent, app_name="assay")

    async def run(self, prompt: str) -> dict[str, object]:
        """The final answer and the tool calls of one run, sub-agents' calls with their agent's name."""
        session = await self.runner.session_service.create_session(app_name="assay", user_id="assay")
        message = types.Content(role="user", parts=[types.Part(text=prompt)])
        output, calls = "", []
        async for event in self.runner.run_async(user_id="assay", session_id=session.id, new_message=message):
            actor = "" if event.author == self.runner.agent.name else event.author
            calls += [
                {"name": call.name, "args": dict(call.args or {}), "id": call.id or "", "actor": actor}
                for call in event.get_function_calls()
            ]
            if event.is_final_response() and event.content:
                output = "".join(part.text or "" for part in event.content.parts or [])
        return {"output": output, "calls": calls}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class ScriptedModel(BaseLlm):
    """Calls the tool, then answers with what it gave back."""

    model: str = "scripted"

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: ARG002 - ADK passes it
    ) -> AsyncGenerator[LlmResponse]:
        """One answer: a call first, words after the call's result is there."""
        last = llm_request.contents[-1].parts[-1]
        if last.function_response:
            part = types.Part(text=f"It is {last.function_response.response['result']}.")
        else:
            part = types.Part.from_function_call(name="add", args={"a": 2, "b": 40})
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


if __name__ == "__main__":
    assay.main(AdkAgent(Agent(name="adder", model=ScriptedModel(), tools=[add])))
