"""The device catalogue and the roofline."""

from fractions import Fraction

import pytest

from slackopt.device import Device
from slackopt.errors import InputError
from slackopt.profiles.accelerators import ACCELERATORS, accelerator_names, get_accelerator
from slackopt.profiles.devices import LINKS, device_names, get_device
from slackopt.profiles.roofline import op_time_ns

A100 = get_accelerator("a100")


@pytest.mark.parametrize("name", device_names())
def test_every_device_is_valid_and_sourced(name: str) -> None:
    device = get_device(name)
    assert isinstance(device, Device)
    assert device.name == name
    assert len(device.source) > 40
    assert any(name.startswith(f"{accelerator}-") for accelerator in ACCELERATORS)


@pytest.mark.parametrize("name", accelerator_names())
def test_every_figure_of_an_accelerator_has_a_source(name: str) -> None:
    accelerator = get_accelerator(name)
    assert set(accelerator.sources) == set(type(accelerator).model_fields) - {
        "name",
        "title",
        "sources",
    }
    assert all(accelerator.sources.values())


def test_known_figures() -> None:
    # NVIDIA A100 data sheet: 312 TFLOP/s dense bf16, 2039 GB/s, 80 GB.
    assert A100.peak("bf16") == 312 * 10**12
    assert A100.memory_bytes_per_s == 2_039 * 10**9
    assert A100.memory_bytes == 80 * 10**9
    assert get_accelerator("a100-40gb").memory_bytes_per_s == 1_555 * 10**9
    assert get_accelerator("h100").peak("bf16") == 989 * 10**12
    assert get_accelerator("h200").memory_bytes_per_s == 4_800 * 10**9


def test_a100_links() -> None:
    plain, shared = get_device("a100-pcie4"), get_device("a100-pcie4-shared")
    assert plain.independent
    assert plain.d2h_bytes_per_s == plain.h2d_bytes_per_s == 25 * 10**9
    assert not shared.independent
    assert shared.d2h_shared_bytes_per_s == 24_500_000_000
    assert shared.h2d_shared_bytes_per_s == 12 * 10**9


def test_later_links_are_faster() -> None:
    speeds = [LINKS[name].h2d_bytes_per_s for name in ("pcie3", "pcie4", "pcie5", "c2c")]
    assert speeds == sorted(speeds)


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"unknown device 'a100'.*a100-pcie4-shared.*v100-pcie3"):
        get_device("a100")
    with pytest.raises(InputError, match=r"unknown accelerator 'a101'.*a100.*v100"):
        get_accelerator("a101")
    with pytest.raises(InputError, match=r"'v100' has no 'bf16' figure; it has fp16, fp32"):
        get_accelerator("v100").peak("bf16")


def test_an_accelerator_with_other_figures() -> None:
    slower = A100.assuming("why", matmul_percent=40, launch_ns=2_000)
    assert (slower.matmul_percent, slower.launch_ns) == (40, 2_000)
    assert slower.memory_percent == A100.memory_percent
    assert slower.sources["matmul_percent"] == slower.sources["launch_ns"] == "why"
    assert slower.sources["memory_percent"] == A100.sources["memory_percent"]
    assert A100.matmul_percent == 67  # the catalogue's own is left as it is
    assert A100.assuming("nothing changed") == A100
    with pytest.raises(InputError, match=r"matmul_percent: must be above 0"):
        A100.assuming("why", matmul_percent=0)
    with pytest.raises(InputError, match=r"figure 'title': must be one of memory_bytes_per_s, "):
        A100.assuming("why", title=1)


def test_roofline_is_the_slower_of_arithmetic_and_traffic() -> None:
    busy = op_time_ns(A100, flops=10**12, moved_bytes=10, dtype="bf16")
    exact = Fraction(10**12 * 10**9, 312 * 10**12) / Fraction(67, 100)
    assert busy == -(-exact.numerator // exact.denominator) + 1_000
    moving = op_time_ns(A100, flops=10, moved_bytes=10**9, dtype="bf16")
    exact = Fraction(10**9 * 10**9, 2_039 * 10**9) / Fraction(88, 100)
    assert moving == -(-exact.numerator // exact.denominator) + 1_000


def test_roofline_of_fused_attention_and_of_nothing() -> None:
    fused = op_time_ns(A100, flops=10**12, moved_bytes=0, dtype="bf16", fused_attention=True)
    exact = Fraction(10**12 * 10**9, 312 * 10**12) / Fraction(61, 100)
    assert fused == -(-exact.numerator // exact.denominator) + 1_000
    assert op_time_ns(A100, flops=0, moved_bytes=0, dtype="bf16") == 1_000


def test_roofline_rounds_up() -> None:
    one_more = op_time_ns(A100, flops=0, moved_bytes=1, dtype="fp32")
    assert one_more == 1_001
