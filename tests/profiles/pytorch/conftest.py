"""Tests of PyTorch profiles need PyTorch; those of Hugging Face models need transformers, too."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]
