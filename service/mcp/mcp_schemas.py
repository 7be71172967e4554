"""JSON Schemas of tools as a language model reads them, all of them before every conversation (OPS-6)."""

from __future__ import annotations

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema

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
