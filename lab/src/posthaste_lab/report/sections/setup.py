"""Section about how the experiment was run (placement, programs, versions, machine, commands), to repeat it."""

from typing import Any

from posthaste_lab.experiments.results import Run
from posthaste_lab.experiments.spans import counted
from posthaste_lab.experiments.tables import LINKS, Value
from posthaste_lab.report.cells import Cell
from posthaste_lab.report.quantities import time
from posthaste_lab.report.sections.parts import Section, TableItem


def setup_section(run: Run, _cells: list[Cell]) -> Section:
    """The last section."""
    around = run.plan["environment"]
    section = Section("setup", "How it was run")
    section.paragraphs.append(
        f"{counted(len(run.plan['trials']), 'trial')}, shuffled within each repetition by seed {run.plan['seed']}, "
        f"begun {around['started']}. Every trial had new processes and empty stores. To run it again: "
        f"posthaste-lab run experiment.toml{' --quick' if run.quick else ''}, with the file beside plan.json."
    )
    if run.experiment.links:
        section.paragraphs.append(f"Links were slower than loopback: {_links(run)}.")
    section.items.extend([_parts_table(run), _environment_table(around), _commands_table(run), _trials_table(run)])
    return section


def _links(run: Run) -> str:
    """Returns the links of the experiment file, and what levels set of them, in words."""
    said = []
    for part, link in run.experiment.links.items():
        levels = [
            f"{target.rpartition('.')[2]} by {name}"
            for name, factor in run.experiment.factors.items()
            for target in sorted({t for level in factor.levels for t in factor.assignments(level)})
            if target.startswith(f"{LINKS}.{part}.")
        ]
        fixed = [link.bandwidth] if link.bandwidth else []
        fixed += [f"delay {time(link.delay)} in each direction"] if link.delay else []
        said.append(f"to {part}, {', '.join(fixed + levels)}")
    return "; ".join(said)


def _parts_table(run: Run) -> TableItem:
    rows, raw = [], []
    for name, part in run.experiment.parts.items():
        place = run.experiment.placement.get(name)
        where = place.host if place is not None else "local"
        cores = place.cpus if place is not None and place.cpus else "any"
        said = {"instances": part.instances, **part.options}
        shown = {option: _fixed(run, f"{name}.{option}", value) for option, value in said.items()}
        instances = shown.pop("instances")
        options = ", ".join(f"{option} = {value}" for option, value in shown.items())
        rows.append([name, part.kind, instances, where, cores, options])
        raw.append({"part": name, "kind": part.kind, "instances": instances, "host": where, "options": options})
    heads = ["part", "kind", "instances", "host", "cores", "options of its own"]
    return TableItem("parts", "What ran, and where.", "experiment.toml", heads, rows, raw)


def _fixed(run: Run, target: str, value: Value) -> str:
    """Returns an option's value in words, or the factor that sets it at all or some levels."""
    for name, factor in run.experiment.factors.items():
        setting = [target in factor.assignments(level) for level in factor.levels]
        if all(setting):
            return f"by {name}"
        if any(setting):
            return f"{value}, or by {name}"
    return str(value)


def _environment_table(around: dict[str, Any]) -> TableItem:
    facts: list[tuple[str, str]] = [(f"{name}", str(value)) for name, value in around["programs"].items()]
    facts += [("laboratory", around["laboratory"]), ("Python", around["python"])]
    facts += [(name, value) for name, value in around["libraries"].items()]
    facts += [(f"{host}: posthaste (SHA-256)", value) for host, value in around.get("sha256", {}).items()]
    for host, machine in around["hosts"].items():
        facts += [(f"{host}: {name}", value) for name, value in machine.items()]
    rows = [[name, value] for name, value in facts]
    raw = [{"what": name, "value": value} for name, value in facts]
    return TableItem("environment", "Versions and machine.", "plan.json", ["what", "value"], rows, raw)


def _commands_table(run: Run) -> TableItem:
    last = max(run.finished, key=lambda result: result.cell)
    rows = [[name, command] for name, command in last.commands.items()]
    raw = [{"part": name, "command": command} for name, command in last.commands.items()]
    caption = f"The command lines of trial {last.name}; those of the others are in their trial.json."
    return TableItem("commands", caption, "trials/*/trial.json", ["part", "command"], rows, raw)


def _trials_table(run: Run) -> TableItem:
    rows, raw = [], []
    for result in sorted(run.results, key=lambda each: run.turns[each.name]):
        levels = [str(level) for level in result.levels.values()]
        status = "finished" if result.finished else f"failed: {result.reason}"
        if result.omissions:
            status = "; ".join(f"left out, {each.says}: {each.reason}" for each in result.omissions)
        if result.losses:
            status += f"; records not whole: {'; '.join(result.losses)}"
        turn = run.turns[result.name]
        rows.append([str(turn), result.name, *levels, status])
        raw.append({"turn": turn, "place": result.place, "trial": result.name, **result.levels, "status": status})
    heads = ["turn", "trial", *run.experiment.factors, "status"]
    return TableItem(
        "trials", "All trials in the order they were run.", "trials/*/trial.json, omit.toml", heads, rows, raw
    )
