"""The tools of the MCP server as the protocol shows them, and a model reads them before each conversation (OPS-6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args, get_type_hints

from mcp_types import Tool, ToolAnnotations
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema

from recall_loop.service.access.api_keys import KeyRole
from recall_loop.service.mcp import mcp_tools, mcp_writes
from recall_loop.service.mcp.mcp_tools import ReportProgress, ToolContext, ToolResult
from recall_loop.state.types import ContentType

_Field = core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField


class ToolSchema(GenerateJsonSchema):
    """A schema without parts that are useless to a model.

    Titles, which repeat names, and descriptions of enums are left out; of a model class only the first paragraph
    stays; optional fields aren't described as nullable, though null is accepted. Of a record in a result, only its
    required fields are described.
    """

    def field_title_should_be_set(self, schema: object) -> bool:
        """Give no field a title."""
        return False

    def generate(self, schema: core_schema.CoreSchema, mode: JsonSchemaMode = "validation") -> JsonSchemaValue:
        """Remove the titles of definitions, and describe a choice by its values: its field describes the purpose."""
        made = super().generate(schema, mode)
        for each in (made, *made.get("$defs", {}).values()):
            each.pop("title", None)
            if "enum" in each:
                each.pop("description", None)
        return made

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Describe a model by its first paragraph."""
        described = super().model_schema(schema)
        if "description" in described:
            described["description"] = described["description"].split("\n\n")[0].replace("\n", " ")
        return described

    def field_is_required(self, field: _Field, total: bool) -> bool:
        """Make result fields that may be empty optional: empty ones are left out."""
        empty = self.mode == "serialization" and field["schema"]["type"] == "nullable"
        return super().field_is_required(field, total) and not empty

    def model_field_schema(self, schema: core_schema.ModelField) -> JsonSchemaValue:
        """Leave null out of a field of a result."""
        inner = schema["schema"]
        nullable = self.mode == "serialization" and inner["type"] == "nullable"
        return self.generate_inner(inner["schema"] if nullable else inner)

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Leave out a default that says no more than absence."""
        default, inner = self.get_default_value(schema), schema["schema"]
        if default is None and inner["type"] == "nullable":
            return self.generate_inner(inner["schema"])
        return self.generate_inner(inner) if isinstance(default, BaseModel) else super().default_schema(schema)

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        """Describe a record of a result."""
        if self.mode == "validation":
            return super().tagged_union_schema(schema)
        text = {"type": "string"}
        properties = {"id": text, "kind": {"enum": [kind.value for kind in ContentType]}, "text": text}
        return {"type": "object", "properties": properties, "required": list(properties)}


@dataclass(frozen=True)
class ToolSpec:
    """One tool: its function, whose docstring and annotations a client reads, its title, and the required role."""

    run: Callable[[ToolContext, Any, ReportProgress], ToolResult[Any]]
    title: str
    role: KeyRole = KeyRole.READ
    destructive: bool = False

    @property
    def name(self) -> str:
        """The name by which it is called."""
        return self.run.__name__.removeprefix("call_")

    @cached_property
    def input_model(self) -> type[BaseModel]:
        """The model of its arguments."""
        model: type[BaseModel] = get_type_hints(self.run)["arguments"]
        return model

    @cached_property
    def tool(self) -> Tool:
        """The tool as the protocol shows it."""
        reads = self.role is KeyRole.READ
        (output_model,) = get_args(get_type_hints(self.run)["return"])
        return Tool(
            name=self.name,
            title=self.title,
            description=" ".join((self.run.__doc__ or "").split()),
            input_schema=self.input_model.model_json_schema(schema_generator=ToolSchema),
            output_schema=output_model.model_json_schema(schema_generator=ToolSchema, mode="serialization"),
            annotations=ToolAnnotations(
                title=self.title,
                read_only_hint=reads,
                destructive_hint=None if reads else self.destructive,
                idempotent_hint=None if reads else self.destructive,
                open_world_hint=False,
            ),
        )


TOOL_SPECS = {
    spec.name: spec
    for spec in (
        ToolSpec(mcp_tools.call_retrieve, "Ask the memory"),
        ToolSpec(mcp_tools.call_search, "Search the memory once"),
        ToolSpec(mcp_tools.call_search_trajectories, "Search past runs"),
        ToolSpec(mcp_tools.call_list, "List memories"),
        ToolSpec(mcp_tools.call_history, "Read a memory's history"),
        ToolSpec(mcp_writes.call_update, "Change a memory", KeyRole.WRITE, destructive=True),
        ToolSpec(mcp_writes.call_add, "Store memories", KeyRole.WRITE),
        ToolSpec(mcp_writes.call_erase, "Erase memories", KeyRole.WRITE, destructive=True),
        ToolSpec(mcp_writes.call_forget, "Forget memories by a rule", KeyRole.ADMIN, destructive=True),
    )
}
