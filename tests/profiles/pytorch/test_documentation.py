"""What docs/pytorch.md says is done, word by word."""

from pathlib import Path

import pytest
from docs.test_how_tos import ROOT, follow

from slackopt.profiles import torch_model_names
from slackopt.profiles.pytorch.huggingface import KNOWN_SIZES

PAGE = ROOT / "docs" / "pytorch.md"


@pytest.mark.slow
def test_the_page_works_word_by_word(tmp_path: Path) -> None:
    assert len(follow(PAGE, tmp_path)) == 5


def test_the_page_names_every_model() -> None:
    text = PAGE.read_text("utf-8")
    for name in (*torch_model_names(), *(f"hf:{size}" for size in KNOWN_SIZES)):
        assert f"`{name}`" in text
