"""What is known of PyTorch operators by their names and schemas."""

from __future__ import annotations

from functools import lru_cache

ANNOTATION_SCOPE = 7
BACKWARD_SCOPE = 1

_RANDOM = frozenset(
    """
    _fused_dropout alpha_dropout bernoulli bernoulli_ cauchy_ exponential_ feature_alpha_dropout
    feature_dropout geometric_ log_normal_ multinomial native_dropout normal normal_ poisson
    rand rand_like randint randint_like randn randn_like random random_ randperm
    rrelu_with_noise rrelu_with_noise_ uniform uniform_
    """.split()  # noqa: SIM905 - a list of words is easier to read
)

_ALLOCATIONS = frozenset(
    """
    _resize_output_ empty empty_like empty_permuted empty_quantized empty_strided new_empty
    new_empty_strided resize_ resize_as_ resize_output
    """.split()  # noqa: SIM905 - a list of words is easier to read
)

# In-place on a tensor's description (shape, history), not on its bytes.
_DESCRIPTION_ONLY = frozenset(
    """
    as_strided_ detach_ requires_grad_ retain_grad set_ set_data squeeze_ swapaxes_ swapdims_ t_
    transpose_ unsqueeze_
    """.split()  # noqa: SIM905 - a list of words is easier to read
)

# Look at the description of their arguments, not at the bytes.
_QUERIES = frozenset(
    """
    _has_compatible_shallow_copy_type _has_same_storage_numel _version can_cast dim is_complex
    is_conj is_contiguous is_floating_point is_leaf is_neg is_nonzero is_pinned is_same_size
    is_signed numel output_nr promote_types result_type size stride sym_numel sym_size
    sym_storage_offset sym_stride
    """.split()  # noqa: SIM905 - a list of words is easier to read
)

_COMMUNICATION = ("c10d::", "_c10d_functional::", "c10d_functional::", "nccl:", "gloo:", "mpi:")


def short_name(name: str) -> str:
    """Return the name without its namespace and overload: ``addmm`` for ``aten::addmm``."""
    return name.rpartition("::")[2].partition(".")[0]


def is_random(name: str) -> bool:
    """Whether the operator draws random numbers whatever its arguments are."""
    return short_name(name) in _RANDOM


def is_allocation(name: str) -> bool:
    """Whether the operator allocates memory and writes nothing to it."""
    return short_name(name) in _ALLOCATIONS


def writes_bytes(name: str) -> bool:
    """Whether an operator that changes an argument in place changes its bytes."""
    return short_name(name) not in _DESCRIPTION_ONLY


def is_query(name: str) -> bool:
    """Whether the operator looks at descriptions of tensors only."""
    return short_name(name) in _QUERIES


def is_communication(name: str) -> bool:
    """Whether the call talks to other devices."""
    return name == "record_param_comms" or name.startswith(_COMMUNICATION)


def is_backward_entry(name: str, scope: int) -> bool:
    """Whether everything below the call belongs to the backward pass."""
    return scope == BACKWARD_SCOPE or name.startswith("autograd::engine::evaluate_function")


def is_optimizer(name: str) -> bool:
    """Whether everything below the call belongs to the optimizer."""
    return name.startswith(("Optimizer.step#", "Optimizer.zero_grad#"))


def is_gradient_accumulation(name: str) -> bool:
    """Whether the call adds a finished gradient to a parameter's ``.grad``."""
    return name == "torch::autograd::AccumulateGrad"


def is_step_marker(name: str) -> bool:
    """Whether the annotation marks one step of the profiler's schedule."""
    return name.startswith("ProfilerStep#")


@lru_cache(maxsize=4096)
def mutated_arguments(schema: str) -> tuple[int, ...]:
    """Return the positions of the arguments that a schema marks as written: ``Tensor(a!) self``."""
    return tuple(i for i, argument in enumerate(_arguments(schema)) if "!" in argument)


@lru_cache(maxsize=4096)
def dropout_argument(schema: str) -> int | None:
    """Return the position of the probability of dropout in a schema, if it has one."""
    for i, argument in enumerate(_arguments(schema)):
        if argument.split("=")[0].endswith(" dropout_p"):
            return i
    return None


def _arguments(schema: str) -> list[str]:
    """Split the arguments of ``name(Tensor(a!) self, int[] size=[1, 1]) -> Tensor``."""
    begin, end = schema.find("("), schema.rfind(") ->")
    if begin < 0 or end < begin:
        return []
    found, depth, current = [], 0, ""
    for character in schema[begin + 1 : end]:
        if character == "," and depth == 0:
            found.append(current.strip())
            current = ""
            continue
        depth += (character in "([") - (character in ")]")
        current += character
    found.append(current.strip())
    # A lone star says that what follows is given by keyword; it is no argument.
    return [argument for argument in found if argument and argument != "*"]
