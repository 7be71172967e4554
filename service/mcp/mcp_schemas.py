"""JSON Schemas of tools as a language model reads them, all of them before every conversation (OPS-6)."""

from __future__ import annotations

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema


class ToolSchema(GenerateJsonSchema):
    """A schema without what a model would read for nothing.

    Left out are titles, which repeat names; of what a model class is only the first paragraph stays; and an argument
    that may be left out isn't described as null too, though null is taken.
    """

    def field_title_should_be_set(self, schema: object) -> bool:
        """Give no field a title."""
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Describe a model by its first paragraph."""
        described = super().model_schema(schema)
        described.pop("title", None)
        if "description" in described:
            described["description"] = described["description"].split("\n\n")[0].replace("\n", " ")
        return described

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Leave out a default that says no more than the argument's absence."""
        default, inner = self.get_default_value(schema), schema["schema"]
        if self.mode == "serialization":
            return super().default_schema(schema)
        if default is None and inner["type"] == "nullable":
            return self.generate_inner(inner["schema"])
        return self.generate_inner(inner) if isinstance(default, BaseModel) else super().default_schema(schema)
