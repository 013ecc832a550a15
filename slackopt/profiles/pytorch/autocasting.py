"""Automatic mixed precision as on a CUDA device, traced without one.

PyTorch turns ``torch.autocast("cuda")`` off where there is no CUDA device. Here it becomes
autocast of the CPU, whose tensors a trace has, with the casts of CUDA's lists: which operators run
in 16 bits, which in 32, which in the widest of their inputs. *That* an operator is in a list, the
dispatcher tells (a kernel under ``AutocastCUDA``); in which one is written down below, after
``aten/src/ATen/autocast_mode.h`` of PyTorch.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Literal
from unittest import mock

import torch
from torch.amp import autocast_mode
from torch.utils import _pytree as pytree

from slackopt.errors import InputError
from slackopt.profiles.pytorch import fakes
from slackopt.profiles.pytorch.settings import TraceSettings

Policy = Literal["16 bit", "32 bit", "32 bit result", "widest", "refused"]

_LOW = frozenset(
    """
    _convolution _scaled_dot_product_flash_attention _thnn_fused_gru_cell _thnn_fused_lstm_cell
    addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d conv_tbc conv_transpose1d
    conv_transpose2d conv_transpose3d convolution cudnn_convolution cudnn_convolution_transpose
    einsum gru_cell linalg_multi_dot linalg_vecdot linear lstm_cell matmul mm mv prelu rnn_relu_cell
    rnn_tanh_cell scaled_dot_product_attention
    """.split()  # noqa: SIM905 - a list of words is easier to read
)
_RESULT = frozenset(
    """
    cumprod cumsum linalg_matrix_norm linalg_vector_norm log_softmax norm prod softmax sum
    """.split()  # noqa: SIM905
)
_WIDEST = frozenset(
    """
    addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put scatter_add tensordot vdot
    """.split()  # noqa: SIM905
)
_REFUSED = frozenset({"binary_cross_entropy"})
_FUSED = {"softmax": torch.ops.aten._softmax, "log_softmax": torch.ops.aten._log_softmax}
"""CUDA's kernels that take fp16 and give fp32, with no copy of the input in fp32."""

_KEY = "AutocastCPU"


def policy_of(operator: str) -> Policy | None:
    """Return how CUDA's autocast casts for an operator (``aten::softmax.int``); None if not."""
    if not torch._C._dispatch_has_kernel_for_dispatch_key(operator, "AutocastCUDA"):
        return None
    name = operator.removeprefix("aten::").partition(".")[0]
    for policy, names in _POLICIES.items():
        if name in names:
            return policy
    return "32 bit"


_POLICIES: dict[Policy, frozenset[str]] = {
    "16 bit": _LOW,
    "32 bit result": _RESULT,
    "widest": _WIDEST,
    "refused": _REFUSED,
}


class Autocasting:
    """Autocast of one trace: that of the settings, and what the model enters by itself.

    Parameters
    ----------
    settings
        Its format, and whose kernels the ops stand for.
    device_type
        Where the tensors of the trace are. On ``cuda`` PyTorch's own autocast works.

    Attributes
    ----------
    entered
        Formats of the regions of autocast for CUDA that the model entered by itself.
    """

    def __init__(self, settings: TraceSettings, device_type: str) -> None:
        self._settings, self._device_type = settings, device_type
        self.entered: set[str] = set()

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Have regions of autocast for CUDA cast as they would there."""
        if self._device_type != "cpu" or self._settings.kernels != "cuda":
            yield
            return
        with _cuda_casts(), self._redirected():
            yield

    def region(self) -> contextlib.AbstractContextManager[Any]:
        """Return the region for forward pass and loss that the settings ask for."""
        if self._settings.autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(self._device_type, dtype=fakes.DTYPES[self._settings.autocast])

    @contextlib.contextmanager
    def _redirected(self) -> Iterator[None]:
        region = autocast_mode.autocast
        make, enter = region.__init__, region.__enter__
        here: set[int] = set()

        def made(
            self_: Any,
            device_type: str,
            dtype: torch.dtype | None = None,
            enabled: bool = True,
            cache_enabled: bool | None = None,
        ) -> None:
            if device_type != "cuda":
                make(self_, device_type, dtype, enabled, cache_enabled)
                return
            chosen = torch.float16 if dtype is None else dtype
            make(self_, "cpu", chosen, enabled, cache_enabled)
            if self_._enabled:
                here.add(id(self_))

        def entered(self_: Any) -> Any:
            if self_.device == "cuda":
                raise InputError(
                    "the model enters torch.autocast('cuda') that was made before the trace (a "
                    "decorator, for example), which PyTorch turns off on a machine without a CUDA "
                    "device: make it where it is entered, or take it out and use the option "
                    "autocast"
                )
            if id(self_) in here:
                self.entered.add(fakes.DTYPE_NAMES.get(self_.fast_dtype, str(self_.fast_dtype)))
            return enter(self_)

        def is_enabled(device_type: str = "cuda") -> bool:
            return bool(_IS_ENABLED("cpu" if device_type == "cuda" else device_type))

        def format_of(device_type: str) -> torch.dtype:
            return _FORMAT("cpu" if device_type == "cuda" else device_type)

        def format_of_cuda() -> torch.dtype:
            return _FORMAT("cpu")

        with (
            mock.patch.object(region, "__init__", made),
            mock.patch.object(region, "__enter__", entered),
            mock.patch.object(torch, "is_autocast_enabled", is_enabled),
            mock.patch.object(torch, "get_autocast_dtype", format_of),
            mock.patch.object(torch, "get_autocast_gpu_dtype", format_of_cuda),
        ):
            yield


_IS_ENABLED, _FORMAT = torch.is_autocast_enabled, torch.get_autocast_dtype


def cast_low(*tensors: torch.Tensor | None) -> Iterator[torch.Tensor | None]:
    """Yield tensors as an operator of the 16-bit list would get them here."""
    low = _FORMAT("cpu") if _IS_ENABLED("cpu") else None
    for tensor in tensors:
        yield tensor if low is None or tensor is None else _cast(tensor, low)


@contextlib.contextmanager
def _cuda_casts() -> Iterator[None]:
    """Give autocast of the CPU the lists of CUDA."""
    casts = _Casts()
    library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that kernels are replaced
            for operator in torch._C._dispatch_get_all_op_names():
                if not operator.startswith("aten::"):
                    continue
                policy = policy_of(operator)
                name = operator.removeprefix("aten::")
                if policy is not None:
                    library.impl(name, casts.kernel(operator, policy), _KEY)
                elif torch._C._dispatch_has_kernel_for_dispatch_key(operator, _KEY):
                    library.impl(name, torch.library.fallthrough_kernel, _KEY)
        with casts.forgetting():
            yield
    finally:
        library._destroy()


class _Casts:
    """The casts of CUDA's lists, each parameter's once within a region, as PyTorch keeps them."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, torch.dtype], tuple[torch.Tensor, torch.Tensor]] = {}

    @contextlib.contextmanager
    def forgetting(self) -> Iterator[None]:
        """Forget the casts of parameters when PyTorch does: at the end of the outermost region."""
        forget = torch.clear_autocast_cache

        def forget_both() -> None:
            self._kept.clear()
            forget()

        with mock.patch.object(torch, "clear_autocast_cache", forget_both):
            yield
        self._kept.clear()

    def kernel(self, operator: str, policy: Policy) -> Callable[..., Any]:
        """Return what stands for an operator under autocast."""
        packet, _, overload = operator.removeprefix("aten::").partition(".")
        call = getattr(getattr(torch.ops.aten, packet), overload or "default")
        at = _format_place(call) if policy == "32 bit result" else None

        def run(*args: Any, **kwargs: Any) -> Any:
            if policy == "refused":
                raise InputError(
                    f"{operator} is unsafe under autocast, and PyTorch refuses it: use "
                    "binary_cross_entropy_with_logits"
                )
            keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
            with torch._C._ExcludeDispatchKeyGuard(keys):
                if at is None:
                    args, kwargs = self._all((args, kwargs), _wanted(policy, (args, kwargs)))
                elif _eligible(args[0]) and not _is_given(at, args, kwargs):
                    if packet in _FUSED and args[0].dtype == torch.float16:
                        return _FUSED[packet](args[0], args[1], True)
                    args, kwargs = args[:at], {**kwargs, "dtype": torch.float32}
                return call(*args, **kwargs)

        return run

    def _all(self, given: Any, dtype: torch.dtype) -> Any:
        return pytree.tree_map_only(torch.Tensor, lambda tensor: self._one(tensor, dtype), given)

    def _one(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        keep = (
            dtype != torch.float32
            and tensor.dtype == torch.float32
            and tensor.requires_grad
            and tensor.is_leaf
            and not tensor._is_view()
            and torch.is_autocast_cache_enabled()
        )
        if not keep:
            return _cast(tensor, dtype)
        key = (id(tensor), dtype)
        if key not in self._kept:
            self._kept[key] = (tensor, _cast(tensor, dtype))
        return self._kept[key][1]


def _cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype) if _eligible(tensor) and tensor.dtype != dtype else tensor


def _eligible(value: Any) -> bool:
    """Whether autocast touches a value: floating-point tensors of 32 bits or less."""
    return (
        isinstance(value, torch.Tensor)
        and value.is_floating_point()
        and value.dtype != torch.float64
        and value.device.type == "cpu"
    )


def _wanted(policy: Policy, given: Any) -> torch.dtype:
    if policy in ("32 bit", "32 bit result"):
        return torch.float32
    low = _FORMAT("cpu")
    if policy == "widest":
        found = {leaf.dtype for leaf in pytree.tree_leaves(given) if _eligible(leaf)}
        return torch.float32 if torch.float32 in found else low
    return low


def _format_place(call: Any) -> int | None:
    """Return the position of an operator's argument ``dtype``; None if it has none."""
    names = [argument.name for argument in call._schema.arguments]
    return names.index("dtype") if "dtype" in names else None


def _is_given(place: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    at = args[place] if place < len(args) else kwargs.get("dtype")
    return at is not None
