"""A cache for late interaction: recently read token vectors, and the neighbours of rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from recall_loop.memory.store.embed.token_vectors import PackedTokens
from recall_loop.memory.store.files.row_memo import RowMemo

_TOKEN_BYTES, _LINK_BYTES = 32 * 1024 * 1024, 4 * 1024 * 1024


@dataclass(frozen=True)
class KnownTokens:
    """Of one tenant and embedder: token vectors that were read last, up to 32 MiB, and which rows stand beside rows.

    Attributes:
        tokens: by rowid.
        links: by rowid the row before and the row after it in its thread, (None, None) for a row without any.
    """

    tokens: RowMemo[PackedTokens] = field(
        default_factory=lambda: RowMemo(lambda tokens: tokens.values.nbytes, _TOKEN_BYTES)
    )
    links: RowMemo[tuple[int | None, int | None]] = field(default_factory=lambda: RowMemo(lambda _: 0, _LINK_BYTES))

    @property
    def nbytes(self) -> int:
        """A rough number of bytes."""
        return self.tokens.nbytes + self.links.nbytes

    def forget(self, rowids: Iterable[int] | None = None) -> None:
        """Forget rows that changed, None = all, and what stands beside any row: others may have got new neighbours."""
        self.tokens.forget(rowids)
        self.links.forget()
