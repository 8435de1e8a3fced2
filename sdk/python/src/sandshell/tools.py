"""Ready tools for language models: Anthropic's and OpenAI's own, on a sandbox.

from sandshell import Sandbox
from sandshell.tools import AnthropicTools

with Sandbox.create() as sandbox, AnthropicTools(sandbox) as tools:
    answer = client.messages.create(tools=tools.definitions, …)
    results = [tools.handle(block) for block in answer.content if block.type == "tool_use"]
"""

from ._async.tools import AsyncAnthropicTools, AsyncOpenAITools
from ._patch import PatchError
from ._sync.tools import AnthropicTools, OpenAITools

__all__ = ["AnthropicTools", "AsyncAnthropicTools", "AsyncOpenAITools", "OpenAITools", "PatchError"]
