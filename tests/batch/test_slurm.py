"""The Slurm executor against stand-ins of Slurm's commands; tests/slurm/run.sh has the real."""

import stat
import sys
import time
from pathlib import Path

import pytest

from slackopt.batch import read_runs
from slackopt.batch.batch import Settings, run_batch
from slackopt.batch.events import Event
from slackopt.batch.expand import expand
from slackopt.batch.slurm import SlurmExecutor, final_state, queued
from slackopt.batch.study import make_study
from slackopt.errors import InputError

pytest.importorskip("submitit")

SBATCH = """
import os, re, subprocess, sys
from pathlib import Path
script = Path(sys.argv[-1])
text = script.read_text()
here = Path(__file__).parent
(here / "asked").write_text(text)
if (here / "refuse").exists():
    sys.exit("sbatch: error: invalid partition specified: nowhere")
number = int(re.search(r"--array=0-(\\d+)", text)[1]) + 1 if "--array" in text else None
command = next(line for line in text.splitlines() if "submitit.core._submit" in line)
command = command[command.index(sys.executable):]
job = 12
while (here / f"job-{job}").exists():
    job += 1
(here / f"job-{job}").write_text("")
for task in range(number or 1):
    name = f"{job}" if number is None else f"{job}_{task}"
    environment = os.environ | {
        "SLURM_JOB_ID": f"{job}", "SUBMITIT_EXECUTOR": "slurm", "SLURM_NTASKS": "1",
        "SLURM_JOB_NUM_NODES": "1", "SLURM_NODEID": "0", "SLURM_PROCID": "0", "SLURM_LOCALID": "0",
    }
    if number is not None:
        environment |= {"SLURM_ARRAY_JOB_ID": f"{job}", "SLURM_ARRAY_TASK_ID": str(task)}
    (here / f"running-{name}").write_text("")
    work = "true" if (here / "lose").exists() else command
    log = (script.parent / f"{name}_0_log.out").open("w")
    subprocess.Popen(
        ["bash", "-c", f"sleep 1; {work}; rm {here}/running-{name}"], stdin=subprocess.DEVNULL,
        env=environment, stdout=log, stderr=log, start_new_session=True,
    )
    if (here / "lose").exists():
        log.write((here / "lose").read_text())
print(f"Submitted batch job {job}")
"""

SQUEUE = """
import sys
from pathlib import Path
if "%e" in sys.argv:
    print("2099-01-01T00:00:00")
else:
    names = [p.name[8:] for p in Path(__file__).parent.glob("running-*")]
    if not names:
        sys.exit("slurm_load_jobs error: Invalid job id specified")
    print("\\n".join(f"{name} RUNNING" for name in names))
"""

SCONTROL = """
from pathlib import Path
state = (Path(__file__).parent / "state").read_text()
print(f"JobId=12 JobName=slackopt Priority=1 JobState={state}")
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "srun").write_text("")
    for name, text in (("sbatch", SBATCH), ("squeue", SQUEUE), ("scontrol", SCONTROL)):
        (folder / name).write_text(f"#!{sys.executable}\n{text}")
    for path in folder.iterdir():
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    (folder / "state").write_text("COMPLETED")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr("slackopt.batch.slurm._POLL_S", 0.2)
    monkeypatch.setattr("slackopt.batch.slurm._PATIENCE_S", 0.5)
    return folder


def test_two_jobs(slurm: Path, bad_methods: str, tiny_file: Path, tmp_path: Path) -> None:
    methods = [
        {"name": "bad-quick"},
        {"name": "bad-hang", "time_limit": 0.5},
    ]
    study = make_study(
        {
            "instances": [str(tiny_file)],
            "methods": methods,
            "modules": [bad_methods],
            "threads": 2,
            "memory_limit": "2GiB",
        }
    )
    cases = expand(study)
    events: list[Event] = []
    executor = SlurmExecutor(jobs=7, partition="cpu", extra={"account": "x"}, modules=study.modules)
    state = run_batch(
        cases[:1], tmp_path / "out", executor=executor, modules=study.modules,
        observer=events.append,
    )  # fmt: skip
    assert state.counts == {"done": 1}
    asked = (slurm / "asked").read_text()
    for line in ("partition=cpu", "account=x", "cpus-per-task=1", "mem=3072M", "time=4"):
        assert f"#SBATCH --{line}\n" in asked
    state = run_batch(
        cases, tmp_path / "out", executor=executor, settings=Settings(grace_s=0.5),
        observer=events.append,
    )  # fmt: skip
    assert state.counts == {"done": 1, "timeout": 1}
    assert [event.kind for event in events if event.kind != "started"] == [
        *("batch", "submitted", "recorded", "end"),
        *("batch", "submitted", "recorded", "end"),
    ]
    hung = read_runs(tmp_path / "out")[0]
    assert hung.outcome == "timeout"
    assert hung.result is not None
    assert hung.result.plan is not None
    # A job writes its own result after the record, so perhaps after the tidying.
    left = [path.name for path in (tmp_path / "out" / "slurm").iterdir()]
    assert all(name.endswith((".out", "_result.pkl")) for name in left), left
    # The job that wrote the last record may still be at work on leaving.
    deadline = time.monotonic() + 20
    for name in ("claims", "checkpoints"):
        while (tmp_path / "out" / name).exists():
            assert time.monotonic() < deadline, f"{name} is left"
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("state", "said", "outcome", "starts"),
    [
        ("TIMEOUT", "", "timeout", 1),
        ("OUT_OF_MEMORY", "", "out_of_memory", 1),
        ("FAILED", "slurmstepd: error: Exceeded job memory limit", "out_of_memory", 1),
        ("CANCELLED", "", "crash", 1),
        ("NODE_FAIL", "", "crash", 3),
    ],
)
def test_jobs_that_leave_no_record(
    slurm: Path, tiny_file: Path, tmp_path: Path, state: str, said: str, outcome: str, starts: int
) -> None:
    (slurm / "state").write_text(state)
    (slurm / "lose").write_text(said)
    cases = expand(make_study({"instances": [str(tiny_file)], "methods": ["slackswap"]}))
    events: list[Event] = []
    run_batch(cases, tmp_path / "out", executor=SlurmExecutor(), observer=events.append)
    (run,) = read_runs(tmp_path / "out")
    assert run.outcome == outcome
    assert said in run.log_tail
    assert [event.kind for event in events].count("submitted") == starts


def test_what_slurm_refuses_is_said(slurm: Path, tiny_file: Path, tmp_path: Path) -> None:
    (slurm / "refuse").write_text("")
    cases = expand(make_study({"instances": [str(tiny_file)], "methods": ["slackswap"]}))
    with pytest.raises(InputError, match=r"Slurm refuses the jobs: .*invalid partition"):
        run_batch(cases, tmp_path / "out", executor=SlurmExecutor(partition="nowhere"))
    assert not (tmp_path / "out" / "claims").exists()


def test_the_queue_and_the_end_of_a_job(slurm: Path) -> None:
    assert queued(set()) == {}
    assert queued({"12"}) == {}
    (slurm / "running-12_3").write_text("")
    assert queued({"12"}) == {"12_3": "RUNNING"}
    assert final_state("12") == "COMPLETED"


def test_without_slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"sbatch is not in PATH: .*--print-commands"):
        SlurmExecutor()
