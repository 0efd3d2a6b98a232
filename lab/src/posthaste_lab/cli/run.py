"""`posthaste-lab run`: an experiment, from its file to a directory of records."""

import os
import shutil
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from posthaste_lab.errors import BadArgument
from posthaste_lab.experiments.columns import figure_problems, unused_rules
from posthaste_lab.experiments.description import Experiment, load
from posthaste_lab.experiments.hosts import Host, hosts_of, load_hosts, this_machine
from posthaste_lab.experiments.memory import file_system, in_memory
from posthaste_lab.experiments.part_problems import check_parts
from posthaste_lab.experiments.plan import aliased, make_plan, options_of
from posthaste_lab.experiments.problems import BadExperiment, RunFailed
from posthaste_lab.experiments.results import read_run
from posthaste_lab.experiments.run import Outcome, Progress, run_experiment
from posthaste_lab.experiments.spans import counted, spoken

INTERRUPTED = 130  # exit code of a shell for SIGINT
console = Console(stderr=True, highlight=False, markup=False, emoji=False)


def run(
    experiment: Annotated[Path, typer.Argument(help="The experiment's TOML file.")],
    out: Annotated[
        Path | None, typer.Option(help="Directory of the run; the same one again goes on where it stopped.")
    ] = None,
    hosts: Annotated[Path | None, typer.Option(help="TOML file that names other machines.")] = None,
    posthaste: Annotated[
        Path | None, typer.Option(envvar="POSTHASTE", help="The program under test, if not the one on PATH.")
    ] = None,
    scratch: Annotated[
        Path | None, typer.Option(help="Where stores keep their data; its disk is measured too. TMPDIR unless named.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, show the trials, run nothing.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="The short version, to try it; never to quote.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run trials again that failed earlier.")] = False,
) -> None:
    """Run an experiment: every combination of levels, repeated, in a shuffled order, everything recorded.

    Example: posthaste-lab run experiments/clients.toml --out results/clients
    """
    whole = load(experiment)
    described = whole.quickly() if quick else whole
    if scratch is not None and not scratch.is_dir():
        raise BadArgument("--scratch", str(scratch), "is no directory")
    local = this_machine(find_posthaste(posthaste), scratch)
    machines = load_hosts(hosts, local)
    problems = [
        *check_parts(described, machines),
        *figure_problems(described),
        *unused_rules(whole),
        *(
            f"placement.{part}.host = {place.host!r}: is none of {', '.join(machines)} (see --hosts)"
            for part, place in described.placement.items()
            if place.host not in machines
        ),
    ]
    if problems:
        raise BadExperiment(str(experiment), problems)
    if dry_run:
        _show_plan(described)
        if care := in_memory(described, _file_systems(described, machines)):
            print(f"read with care: {care}")
        return
    directory = out or Path("results") / (experiment.stem + ("-quick" if quick else ""))
    source = experiment.read_text("utf-8")
    try:
        with _bar() as bar:
            task = bar.add_task("starting", total=len(make_plan(described).trials), left="")
            outcome = run_experiment(
                described,
                source,
                machines,
                directory,
                quick=quick,
                retry_failed=retry_failed,
                tell=lambda progress: _tell(bar, int(task), progress),
            )
    except KeyboardInterrupt:
        typer.echo("posthaste-lab: interrupted; the same command goes on from here", err=True)
        raise typer.Exit(INTERRUPTED) from None
    _conclude(outcome, directory)


def _bar() -> Bar:
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[left]}"))
    return Bar(
        *columns, TextColumn("{task.description}", markup=False), console=console, disable=not console.is_terminal
    )


def _tell(bar: Bar, task: int, progress: Progress) -> None:
    if progress.trial is None:
        bar.update(bar.task_ids[task], completed=progress.over, description="done", left="")
        return
    levels = ", ".join(f"{name} {level}" for name, level in progress.trial.levels.items())
    left = f"{spoken(progress.remaining_s)} left"
    failed = f", {len(progress.failed)} failed" if progress.failed else ""
    bar.update(bar.task_ids[task], completed=progress.over, description=f"{levels}{failed}", left=left)
    if not console.is_terminal:
        console.print(f"trial {progress.over + 1} of {progress.of}: {levels or 'the only one'} ({left}{failed})")


def _conclude(outcome: Outcome, directory: Path) -> None:
    from posthaste_lab.report.soundness import trials_to_doubt  # with matplotlib, which is slow to load

    for name, reason in outcome.failed.items():
        console.print(f"failed: trial {name}: {reason}", soft_wrap=True)
    for name, objections in outcome.not_accepted.items():
        console.print(f"not accepted: trial {name}: {'; '.join(objections)}", soft_wrap=True)
    for name, losses in outcome.lost.items():
        for loss in losses:
            console.print(f"not whole: trial {name}: {loss}", soft_wrap=True)
    print(f"{outcome.finished} trials finished in {directory}")
    print(f"report: posthaste-lab report {directory}")
    doubts = trials_to_doubt(read_run(directory))
    for name, why in doubts.items():
        console.print(f"doubtful: trial {name}: {'; '.join(why)}", soft_wrap=True)
    if doubts:
        print(f"doubtful: {counted(len(doubts), 'trial')}; all verdicts: posthaste-lab check {directory}")
    if outcome.failed:
        raise RunFailed(f"trials that failed: {len(outcome.failed)}; the same command with --retry-failed repeats them")
    if outcome.not_accepted:
        raise RunFailed(f"trials that are not accepted, by the file's own rules: {len(outcome.not_accepted)}")
    if outcome.lost:
        raise RunFailed(
            f"trials whose records are not whole: {len(outcome.lost)}; put the files back, or remove the directories "
            f"of these trials in {directory / 'trials'}, and the same command runs them again"
        )


def _show_plan(experiment: Experiment) -> None:
    plan = make_plan(experiment)
    head, measured, tail = experiment.trimmed
    print(f"{experiment.title}: {experiment.question}")
    print(plan.spoken())
    print(f"measured in each trial: {spoken(measured)}, after {spoken(head)} and before {spoken(tail)} of load")
    print(f"order (seed {plan.seed}):")
    for trial in plan.trials:
        levels = ", ".join(f"{name} = {level}" for name, level in trial.levels.items())
        print(f"  {trial.place:>3}  {trial.name}  {levels}")
    for part, (instances, options) in options_of(experiment, plan.trials[0]).items():
        given = " ".join(f"{name}={value}" for name, value in options.items())
        print(f"part {part} x {instances}: {experiment.parts[part].kind} {given}")
    found = aliased(experiment)
    if found is not None:
        print(f"a fraction of resolution {found.resolution}: I = {' = '.join(found.defining_relation)}")
        for members in found.sets.values():
            print(f"  {' = '.join(members)}")


def _file_systems(experiment: Experiment, machines: dict[str, Host]) -> dict[str, str]:
    return {name: file_system(host) for name, host in hosts_of(experiment, machines).items()}


def find_posthaste(named: Path | None) -> Path:
    """The program under test: the one named, or the one on PATH. Raises RunFailed when there is none."""
    if named is not None:
        if os.access(named, os.X_OK) and named.is_file():
            return named.resolve()
        raise RunFailed(f"{named} is no program; name posthaste with --posthaste or POSTHASTE")
    found = shutil.which("posthaste")
    if found is None:
        raise RunFailed("posthaste is not on PATH; name it with --posthaste or POSTHASTE")
    return Path(found).resolve()
