"""The server as clients see it: its tools, strict about their arguments, the resource and the prompt."""

import inspect
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, cast

from mcp.server import MCPServer
from mcp.server.mcpserver.context import Context
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, GetPromptResult, InputRequiredResult, ToolAnnotations
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from librarian_pipeline.serving.mcp.prompts import INSTRUCTIONS, grounded_answer
from librarian_pipeline.serving.mcp.tools import Tools
from librarian_pipeline.settings import ServingSettings

if TYPE_CHECKING:
    from librarian_pipeline.serving.library import Library

NAME = "librarian"
READS_ONLY = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
SHOWN = 80
"""Characters of a wrong value that an error repeats."""


class _NothingElse(ArgModelBase):
    model_config = ConfigDict(extra="forbid")


class StrictServer(MCPServer[Any]):
    """Its errors say in one line which argument is wrong and what it may be."""

    def __init__(self, tools: list[Tool], **more: Any) -> None:
        super().__init__(tools=tools, **more)
        self._arguments = {tool.name: tool.fn_metadata.arg_model for tool in tools}

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Raises `ToolError` with that line, and `UnexpectedToolError` for a fault of ours, which is logged and hidden."""
        if name not in self._arguments:
            raise ToolError(f"there is no tool {name[:SHOWN]!r}: use one of {', '.join(self._arguments)}")
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError:
            raise
        except ToolError as error:
            # The cause has the line; the error puts words of its own before it.
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(_explained(error.__cause__, self._arguments[name])) from error.__cause__
            if isinstance(error.__cause__, ToolError):
                raise ToolError(str(error.__cause__)) from error
            raise

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[Any, Any] | None = None
    ) -> GetPromptResult | InputRequiredResult:
        """Raises `MCPError` with that line: for a wrong argument the library would log a traceback, and tell nothing."""
        prompts = {
            prompt.name: [argument.name for argument in prompt.arguments or ()] for prompt in await self.list_prompts()
        }
        if name not in prompts:
            raise MCPError(INVALID_PARAMS, f"there is no prompt {name[:SHOWN]!r}: use {', '.join(prompts)}")
        if set(arguments or ()) != set(prompts[name]):
            raise MCPError(INVALID_PARAMS, f"{name} takes {', '.join(prompts[name])}, and nothing else")
        return await super().get_prompt(name, arguments, context)


def build_server(library: "Callable[[], Library]", serving: ServingSettings) -> StrictServer:
    """`library` is called when the first tool is."""
    tools = Tools(library, serving)
    functions: list[Callable[..., CallToolResult]] = [tools.search_podcast, tools.list_episodes, tools.episode_detail]
    server = StrictServer(
        [_tool(function) for function in functions],
        name=NAME,
        title="The Librarian",
        instructions=INSTRUCTIONS,
        version=version("librarian-pipeline"),
        log_level="WARNING",
    )
    server.prompt()(grounded_answer)

    @server.resource("episode://{episode_id}", mime_type="text/plain")
    def episode(episode_id: str) -> str:
        """An episode's passages in the order of time, each with its citation; of a long one, the first."""
        try:
            return tools.episode_as_text(episode_id)
        except ToolError as error:
            kind = ResourceError if error.__cause__ else ResourceNotFoundError
            raise kind(str(error)) from error

    return server


def _tool(function: Callable[..., CallToolResult]) -> Tool:
    """Refuses arguments that it doesn't know, such as `top_k`, instead of going on without them."""
    tool = Tool.from_function(function, description=inspect.getdoc(function), annotations=READS_ONLY)
    taken = tool.fn_metadata.arg_model
    model = cast(type[ArgModelBase], create_model(taken.__name__, __base__=(_NothingElse, taken)))
    tool.fn_metadata.arg_model = model
    tool.parameters = model.model_json_schema(by_alias=True)
    return tool


def _explained(error: ValidationError, arguments: type[BaseModel]) -> str:
    """One line: each argument that is wrong, and what it may be."""
    fields = arguments.model_fields
    told: dict[str, str] = {}
    for problem in error.errors(include_url=False, include_context=False):
        name = str(problem["loc"][0])
        if problem["type"] == "extra_forbidden":
            told[name] = f"there is no argument {name[:SHOWN]!r} (there are {', '.join(fields)})"
        elif problem["type"] == "missing":
            told[name] = f"{name} is missing: {fields[name].description}"
        else:
            told.setdefault(name, f"{name} is wrong ({_shown(problem['input'])}): {fields[name].description}")
    return "; ".join(told.values())


def _shown(value: object) -> str:
    if isinstance(value, str) and len(value) > SHOWN:
        return f"{len(value):,} characters"
    shown = repr(value)
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}…"
