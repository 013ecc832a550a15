"""Small but real models, with what a training step needs."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from slackopt.profiles.pytorch.workload import Workload


class ResidualNet(nn.Module):
    """A ResNet in small: stem, two blocks that keep the shape and one that halves it."""

    def __init__(self, inplace: bool = True) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.block0 = Block(8, 8, 1, inplace)
        self.block1 = Block(8, 8, 1, inplace)
        self.block2 = Block(8, 16, 2, inplace)
        self.fc = nn.Linear(16, 10)
        self.inplace = inplace

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.bn1(self.conv1(x)), self.inplace)
        x = F.max_pool2d(self.block1(self.block0(x)), 2)
        x = self.block2(x)
        return self.fc(x.mean((2, 3)))


class Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int, inplace: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.down = None if before == after else nn.Conv2d(before, after, 1, stride)
        self.inplace = inplace

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = F.relu(self.bn1(self.conv1(x)), self.inplace)
        out = self.bn2(self.conv2(out))
        identity = x if self.down is None else self.down(x)
        if self.inplace:
            out += identity
            return F.relu_(out)
        return F.relu(out + identity)


class SmallUNet(nn.Module):
    """Two steps down, two up, skip connections, group norms."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([self.part(1, 4), self.part(4, 8), self.part(8, 16)])
        self.up = nn.ModuleList(
            [nn.ConvTranspose2d(16, 8, 2, stride=2), nn.ConvTranspose2d(8, 4, 2, stride=2)]
        )
        self.merge = nn.ModuleList([self.part(16, 8), self.part(8, 4)])
        self.head = nn.Conv2d(4, 2, 1)

    @staticmethod
    def part(before: int, after: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(2, after), nn.SiLU()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skipped = []
        for level, part in enumerate(self.down):
            x = part(x if level == 0 else F.max_pool2d(x, 2))
            skipped.append(x)
        skipped.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([skipped.pop(), up(x)], 1))
        return self.head(x)


def residual_net(inplace: bool = True) -> Workload:
    torch.manual_seed(1)
    images, labels = torch.randn(4, 3, 16, 16), torch.tensor([1, 0, 7, 3])
    return Workload(ResidualNet(inplace), images, targets=labels, loss=F.cross_entropy)


def small_unet() -> Workload:
    torch.manual_seed(2)
    images, labels = torch.randn(2, 1, 16, 16), torch.randint(2, (2, 16, 16))
    return Workload(SmallUNet(), images, targets=labels, loss=F.cross_entropy)


def hugging_face(kind: str, attention: str = "eager", **settings: Any) -> Workload:
    """A two-layer model from a config, on the CPU, with random weights."""
    import transformers

    sizes: dict[str, dict[str, Any]] = {
        "bert": {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 64,
            "vocab_size": 50,
        },
        "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 50},
        "llama": {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "intermediate_size": 48,
            "vocab_size": 50,
        },
    }
    classes = {
        "bert": (transformers.BertConfig, transformers.BertForMaskedLM),
        "gpt2": (transformers.GPT2Config, transformers.GPT2LMHeadModel),
        "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    }
    config_class, model_class = classes[kind]
    config = config_class(**{**sizes[kind], **settings}, attn_implementation=attention)
    config.use_cache = False
    torch.manual_seed(3)
    tokens = torch.randint(50, (2, 12))
    return Workload(model_class(config), {"input_ids": tokens, "labels": tokens.clone()})


NETWORKS: dict[str, Callable[[], Workload]] = {
    "bert": lambda: hugging_face("bert"),
    "gpt2": lambda: hugging_face("gpt2"),
    "llama": lambda: hugging_face("llama"),
    "residual net": residual_net,
    "residual net, nothing in place": lambda: residual_net(inplace=False),
    "u-net": small_unet,
}
"""Each without its dropout in the tests that execute it."""
