"""What a reader must know before quoting any figure of a run, in sentences."""

from posthaste_lab.experiments.clocks import unrelated
from posthaste_lab.experiments.environment import FILE_SYSTEM
from posthaste_lab.experiments.figures import response_of_all_s
from posthaste_lab.experiments.journal import BUSY_AGAIN
from posthaste_lab.experiments.links import BY_PAUSE
from posthaste_lab.experiments.memory import in_memory
from posthaste_lab.experiments.results import Run
from posthaste_lab.experiments.spans import counted
from posthaste_lab.report.laws import verdicts
from posthaste_lab.report.passage import of_other_requests


def warnings(run: Run) -> list[str]:
    """Returns the sentences; none for a run to be quoted as it is."""
    found = []
    if run.quick:
        found.append(
            "This is the quick version of the experiment: it shows that it works, its figures are not to be quoted."
        )
    if run.plan["environment"].get("busy"):
        found.append("The machine was busy with something else when the run began, so its figures may be of both.")
    if run.plan["environment"].get(BUSY_AGAIN):
        found.append(
            "A machine was busy with something else when the run was resumed, so what was run then may be of both."
        )
    if run.out_of_turn:
        found.append(
            f"Run out of turn, after trials that follow in the plan: {', '.join(run.out_of_turn)}. What had changed by "
            "then is in their figures, and stands for a difference of the repetition that they complete."
        )
    machines = run.plan["environment"]["hosts"]
    if care := in_memory(run.experiment, {name: told.get(FILE_SYSTEM, "") for name, told in machines.items()}):
        found.append(care)
    failed = [result.name for result in run.results if not result.finished]
    if failed:
        found.append(f"{counted(len(failed), 'trial')} failed ({', '.join(failed)}); their reasons are at the end.")
    found += [f"Left out is {omission.says}: {omission.reason}" for omission in run.omissions]
    found += [
        f"{lost[0].upper()}{lost[1:]}. Its distributions, its course over time and its events are left out."
        for lost in run.lost
    ]
    found += [
        f"Trial {result.name} is not accepted, by the file's own rules: {'; '.join(result.objections)}."
        for result in run.finished
        if result.objections
    ]
    if run.missing:
        found.append(f"{counted(run.missing, 'trial')} of the plan still to run.")
    if run.experiment.run.repetitions == 1:
        found.append("Each combination was run once, so nothing here can say how much chance is in it.")
    if run.experiment.run.repetitions == 2:
        found.append(
            "Each combination was run twice only: with one degree of freedom Student's t is 12.7, so the intervals are "
            "several times as wide as those of a third repetition would be."
        )
    invalid = [result for result in run.finished if result.figures.get("generator_valid") is False]
    if invalid:
        why = invalid[0].figures.get("invalid_because")
        found.append(
            f"In {counted(len(invalid), 'trial')} the load generator calls its figures invalid "
            f"({', '.join(result.name for result in invalid)}){f', of {invalid[0].name} because {why}' if why else ''}."
        )
    broken = sorted({result.name for result in run.finished for verdict in verdicts(result) if not verdict.holds})
    if broken:
        found.append(f"In {counted(len(broken), 'trial')} an operational law does not hold ({', '.join(broken)}).")
    others = [
        result.name
        for result in run.finished
        if of_other_requests(response_of_all_s(result.figures), result.figures.get("tier_response_mean_s"))
    ]
    if others:
        found.append(
            f"In {counted(len(others), 'trial')} ({', '.join(others)}) requests took longer in the tier on average "
            "than their clients measured: windows of a tier count whole, and one at an edge of the measured time holds "
            "a stall that the clients' times do not. So the stages are not those of the clients' requests."
        )
    apart = {result.name: names for result in run.finished if (names := unrelated(result.directory))}
    if apart:
        parts = ", ".join(sorted(set().union(*apart.values())))
        found.append(
            f"In {counted(len(apart), 'trial')} nothing relates the clock of {parts}, on another machine, to that of "
            f"the load generator ({', '.join(apart)}): by as much as the two are apart, its stages are of another time."
        )
    paused = sorted({link["part"] for result in run.finished for link in result.links if link["delay_by"] == BY_PAUSE})
    if paused:
        found.append(
            f"The delay of the link to {', '.join(paused)} is made by the load generator, which pauses for the time "
            "there and back, since this kernel cannot delay packets: response times do not hold it."
        )
    answered = sum(int(result.figures.get("errors") or 0) for result in run.finished)
    if answered:
        found.append(f"Answered with an error: {counted(answered, 'request')}; throughput counts the others.")
    violations = sum(int(result.figures.get("violations") or 0) for result in run.finished)
    if violations:
        found.append(f"Wrong by the load generator's own check: {counted(violations, 'answer')}.")
    return found
