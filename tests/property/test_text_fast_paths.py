"""Common texts are read by plainer rules than others; both give the same."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from recall_loop.text.words import folding, segmentation, tokens
from recall_loop.text.words.snippets import best_snippet

_SIGNS = "学习中文的年月日号时点分字乐器" + "c+#.net'’a1b2,09-_/ " + "\u3001\u3002\u201c\u201d\u2014\u00b7"
chinese_texts = st.text(st.sampled_from(_SIGNS), max_size=40)


@given(chinese_texts)
def test_common_chinese_is_cut_as_any_text_is(text):
    """Proves: OPEN-4. The plain pattern finds the tokens of the one for all scripts."""
    for run in folding.fold(text).split():
        assert [match.group() for match in tokens._TOKEN.finditer(run)] == list(tokens._matches(run))


@given(st.text(st.sampled_from("学中文鈴乐ぁァー々〇\u0301"), min_size=1, max_size=12))
def test_a_run_of_han_characters_is_cut_as_any_run_is(run):
    """Proves: OPEN-4."""
    assert segmentation.index_words(run) == [word for _, word in segmentation.placed_words(run)]


@given(st.text(st.sampled_from("abz09 _`'´A" + "学中文鈴\u3001\u3002\uff0cé"), max_size=30))
def test_text_on_the_fast_path_is_already_folded(text):
    """Proves: OPEN-4."""
    plain = unicodedata.normalize("NFKC", text.casefold()) if not text.isascii() else text.lower()
    if folding._FOLDED.fullmatch(text):
        assert folding.fold(text) == text == plain


@given(chinese_texts, st.sets(st.sampled_from(["学习", "中文", "乐器", "net", "字"]), max_size=3), st.integers(1, 12))
def test_snippets_of_unbroken_text_show_a_term_that_fits(text, terms, limit):
    """Proves: SEARCH-8. A snippet is a part of the text, within the limit, however its words are found."""
    snippet = best_snippet(text, terms, limit)
    assert len(snippet) <= limit
    assert snippet.strip("\u2026") in text
