"""JSON Schemas of tools as a language model reads them, all of them before every conversation (OPS-6)."""

from __future__ import annotations

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema

from recall_loop.state.types import ContentType

_Field = core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField


class ToolSchema(GenerateJsonSchema):
    """A schema without what a model would read for nothing.

    Left out are titles, which repeat names, and what an enum is; of what a model class is only the first paragraph
    stays; and what may be left out isn't described as null too, though null is taken as an argument. Of a record in
    a result only that is described without which there is none.
    """

    def field_title_should_be_set(self, schema: object) -> bool:
        """Give no field a title."""
        return False

    def generate(self, schema: core_schema.CoreSchema, mode: JsonSchemaMode = "validation") -> JsonSchemaValue:
        """Give no definition a title, and say of a choice its values: what it is for is said by the field."""
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
        """Require nothing of a result that may be empty: what is empty is left out there."""
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
