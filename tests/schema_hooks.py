"""What schemathesis has to be told of the service: how JSON Lines are sent."""

from __future__ import annotations

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def ndjson(ctx, value):
    """Send a text as it is, and bytes as they are."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
