"""An open store: its state, how it is closed, and the parts shared within the process."""

from __future__ import annotations

from types import TracebackType
from typing import Any, NoReturn, Self, cast

from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.maintenance import Maintenance
from recall_loop.memory.store.record_writer import RecordWriter
from recall_loop.memory.store.recovery.store_session import StoreSession
from recall_loop.memory.store.store_writing import StoreWriting
from recall_loop.state.errors import StoreUnusableError


class OpenStore(StoreWriting):
    """A store from its opening to its closing.

    Attributes:
        path: the store's folder; None elsewhere.
        location: what `open` takes to open the same store in another process: its folder, or its address with the
            password; None in memory.
        read_only: whether it was opened for reading only.
        repairs: the repairs that opening and writing made, in words; empty most of the time.
        maintenance: verifying, rebuilding, compacting, token vectors, and facts about the store as a whole.
    """

    def __init__(self, session: StoreSession, writer: RecordWriter | None = None) -> None:
        """Take over a session that was opened, with the writer of those who have it already."""
        files = session.files
        self.path, self.read_only, self.repairs = files.path, files.read_only, files.repairs
        self.location = files.location
        super().__init__(session, writer or RecordWriter(session))
        self.maintenance = Maintenance(session)
        session.users.add(self)

    def __enter__(self) -> Self:
        """Return the store itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the store."""
        self.close()

    def close(self) -> None:
        """Close files and give the lock back; a second call does nothing.

        Others of this process that have the same folder open for writing go on, and the last of them does that.
        """
        session = self._session
        if isinstance(session, _LeftSession) or session.lock.is_foreign:
            return
        session.users.discard(self)
        if not session.users:
            with session.turn:
                if not session.users:  # nobody has joined while this waited
                    session.close()
                    return
        self._session = self.writer = self.maintenance = cast("Any", _LeftSession())

    @property
    def in_place(self) -> bool:
        """Whether the folder is still the one that was opened, neither removed nor replaced since."""
        return self._session.files.is_in_place()

    @property
    def writable(self) -> bool:
        """Whether writes are taken."""
        return not self.read_only

    @property
    def embedder(self) -> Embedder:
        """The embedder that texts and queries need."""
        return self._session.embedder

    @property
    def generation(self) -> str:
        """Id of the index generation; a new one starts when everything is embedded again or compacted."""
        return self._session.marker["generation"]

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._session.dimension

    @property
    def degraded_reason(self) -> str | None:
        """Why the store works with less than everything, or None (SEARCH-9).

        Without Chroma reads stay complete and exact; without the lexical index they lack its retriever; after a
        write that failed they are complete, and the reason stays until a write succeeds. Answers quote it, so that it
        names no address; `degraded_detail` has Chroma's own words, and so has the log.
        """
        return self._session.degraded_reason

    @property
    def degraded_detail(self) -> str | None:
        """The same in full, for operators."""
        return self._session.degraded_detail


class _LeftSession:
    """Stands for the session in a store that was closed while others go on with it."""

    def __getattr__(self, name: str) -> NoReturn:
        """Raise `StoreUnusableError`."""
        raise StoreUnusableError("the store is closed")
