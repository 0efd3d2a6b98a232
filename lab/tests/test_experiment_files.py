"""Tests what an experiment file may contain, and the messages for everything else."""

from pathlib import Path

import pytest
from programs import ROOT, SMALL, here, lab, write

from posthaste_lab.experiments import BadExperiment, load, make_plan
from posthaste_lab.experiments.columns import figure_problems, unused_rules
from posthaste_lab.experiments.part_problems import check_parts
from posthaste_lab.experiments.plan import aliased, options_of
from posthaste_lab.experiments.tables import Acceptance


def problems(tmp_path: Path, old: str, new: str) -> list[str]:
    """What is said about the small experiment with `old` replaced by `new`."""
    assert old in SMALL
    with pytest.raises(BadExperiment) as caught:
        load(write(tmp_path, SMALL.replace(old, new)))
    return caught.value.problems


SECOND = '[factors.size]\nlevels = [1, 2]\nsets = "load.message-bytes"\n'
THIRD = '[factors.workers]\nlevels = [1, 2]\nsets = "tier.workers"\n'
THIRTEEN = "".join(f'[factors.f{n}]\nlevels = [1, 2]\nsets = "tier.option-{n}"\n' for n in range(12))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("repetitions = 2", "repetitions = 0", "run.repetitions = 0: "),
        ("repetitions = 2", 'repetitions = "2"', "run.repetitions = '2': "),
        ('duration = "500ms"', 'duration = "5 parsecs"', "run.duration = '5 parsecs': must be a time with its unit"),
        ('duration = "500ms"', "duration = 600", "run.duration = 600: must be a time with its unit, such as 500ms"),
        ('head = "100ms"', 'head = "soon"', "run.trim.head = 'soon': must be a time with its unit"),
        ('head = "100ms"', "head = 0.1", "run.trim.head = 0.1: must be a time with its unit"),
        ('window = "50ms"', "window = 1", "run.window = 1: must be a time with its unit"),
        ('duration = "300ms"', "duration = 3", "quick.duration = 3: must be a time with its unit"),
        ('duration = "500ms"', 'duration = "100ms"', "run.duration = 0.1 s: nothing is left after run.trim"),
        ('head = "100ms"', 'head = "120%"', "run.trim.head = '120%': must be a share"),
        ('head = "100ms"', 'heda = "100ms"', "run.trim.heda: is no key of this table"),
        ("repetitions = 2", "repetitons = 2", "run.repetitons: is no key of this table; did you mean repetitions?"),
        ("seed = 7", "colour = 7", "run.colour: is no key of this table"),
        ('title = "A', 'tittle = "A', "tittle: is no key of this table; did you mean title?"),
        ("levels = [2, 8]", "levles = [2, 8]", "factors.clients.levles: is no key of this table; did you mean levels?"),
        ("figure =", "figur =", "claims.0.figur: is no key of this table; did you mean figure?"),
        ("[quick]", "[quick]\ntrim.heda = '1ms'", "quick.trim.heda: is no key of this table; did you mean head?"),
        ('question = "Does it run?"', "", "question: is missing"),
        ('question = "Does it run?"', 'question = " "', "question = ' ': must say something"),
        ("levels = [2, 8]", "levels = [2, 8, 8]", "factors.clients.levels = [2, 8, 8]: each must be there once"),
        ("levels = [2, 8]", "levels = [2, 8, 8.0]", "factors.clients.levels = [2, 8, 8.0]: each must be there once"),
        ("levels = [2, 8]", 'levels = [2, 8, "8"]', "factors.clients.levels = [2, 8, '8']: each must be there once"),
        ("levels = [2, 8]", "levels = []", "factors.clients.levels = []: "),
        (
            'sets = "load.clients"',
            "settings = { 2 = {}, 8 = {} }",
            "factors.clients.settings: sets nothing at any level, so all would measure the same; name a PART.OPTION",
        ),
        ('sets = "load.clients"', "sets = []", "factors.clients.sets: sets nothing at any level"),
        ('sets = "load.clients"', "", "factors.clients: needs either sets"),
        ('sets = "load.clients"', 'sets = "lead.clients"', "factors.clients sets 'lead.clients': must be PART.OPTION"),
        (
            'sets = "load.clients"',
            'settings = { 2 = { "load.clients" = 2 } }',
            "factors.clients.settings: has no table for the level 8",
        ),
        ("[factors.clients]", "[factors.status]", "factors.status: is the name of a column of trials.csv"),
        ("levels = [2, 8]", "levels = [2, inf]", "factors.clients.levels = [2, inf]: each must be finite"),
        ('duration = "500ms"', "duration = inf", "run.duration = inf: "),
        ("[factors.clients]", f"{SECOND}[factors.I]", "factors.I: is no name for a factor of a 2^k design"),
        (
            "[factors.clients]",
            f"{SECOND}[factors.repetitions]",
            "factors.repetitions: is no name for a factor of a 2^k design",
        ),
        ("[factors.clients]", f'{SECOND}[factors."a:b"]', "factors.a:b: is no name for a factor of a 2^k design"),
        ("[factors.clients]", f"{THIRTEEN}[factors.clients]", "factors: 13 of two levels are more than the 12 that"),
        (
            "levels.clients = [2]",
            'levels.clients = ["2"]\n[report]\nx = "clients"',
            "with [quick]: report.x = 'clients': must be a factor of numbers, and its levels are ['2']",
        ),
        ("[quick]", "[quick]\ntrim = '10%'", "quick.trim = '10%': must be a table with the keys head, tail"),
        (
            "levels = [2, 8]",
            "levels = [2, [8]]",
            "factors.clients.levels.1 = [8]: must be true or false or a number or a string",
        ),
        ("levels = [2, 8]", "levels = 3", "factors.clients.levels = 3: must be a list"),
        ("at_least = 0.0001", "", "claims.0: needs at_least or at_most"),
        ("at_least = 0.0001", "at_least = nan", "claims.0.at_least = nan: Input should be a finite number"),
        ("at_least = 0.0001", "at_most = inf", "claims.0.at_most = inf: Input should be a finite number"),
        (
            "at_least = 0.0001",
            "at_least = 2\nat_most = 1.5",
            "claims.0.at_least = 2: is above at_most = 1.5, and no figure keeps both; exchange them",
        ),
        (
            "than = { clients = 2 }",
            "than = { clients = 8.0 }",
            "claims.0.than = {'clients': 8.0}: is the same as where, and a ratio to itself is 1; name other levels",
        ),
        ("where = { clients = 8 }", "where = { clients = 9 }", "claims.0.where.clients = 9: is no level"),
        ("where = { clients = 8 }", "where = { servers = 8 }", "claims.0.where.servers: is none of the factors"),
        ("[quick]", '[report]\nx = "size"\n[quick]', "report.x = 'size': is none of the factors clients"),
        (
            "[quick]",
            '[report]\nresponse = ["served", "ok", "nulls"]\ntransform = ["log", "none"]\n[quick]',
            "report.transform = ['log', 'none']: must be one for all of report.response, or one for each of them",
        ),
        (
            "[[claims]]",
            '[factors.more]\nlevels = [1, 2]\nsets = ["tier.batch", "load.clients"]\n[[claims]]',
            "factors.more sets 'load.clients': which factors.clients sets too",
        ),
        ("levels.clients = [2]", "levels.servers = [2]", "quick.levels.servers: is none of the factors clients"),
        ('duration = "300ms"', 'duration = "150ms"', "with [quick]: run.duration = 0.15 s: nothing is left after"),
        ("[quick]", '[[accept]]\nfigure = "errors"\n[quick]', "accept.0: needs at_least or at_most"),
        (
            "[quick]",
            '[[accept]]\nfigure = "errors"\nat_most = -inf\n[quick]',
            "accept.0.at_most = -inf: Input should be a finite number",
        ),
        (
            "[quick]",
            '[[accept]]\nfigure = "errors"\nat_least = 3\nat_most = 2\n[quick]',
            "accept.0.at_least = 3: is above at_most = 2",
        ),
        ("[quick]", "[placement]\nserver = {}\n[quick]", "placement.server: is none of the parts tier, load"),
        ("[quick]", "[placement]\ntier = { cpus = '' }\n[quick]", "placement.tier.cpus = '': String should match"),
        (
            "[quick]",
            "[placement]\ntier = { cpus = 'all' }\n[quick]",
            "placement.tier.cpus = 'all': String should match",
        ),
        ("[quick]", '[design]\ngenerators = ["D=ABC"]\n[quick]', "design.generators = "),
        (
            "[factors.clients]",
            f'[design]\ngenerators = ["D=ABC"]\n{SECOND}{THIRD}[factors.clients]',
            "design.generators: D is none of the 3 factors, nor the letter of one",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_value(tmp_path: Path, old: str, new: str, said: str) -> None:
    """One sentence for each slip: key, value, rule."""
    found = problems(tmp_path, old, new)
    assert [line for line in found if line.startswith(said)]


def test_true_is_another_level_than_1(tmp_path: Path) -> None:
    """An option that stands alone is not one with a number; a claim about one is not about the other."""
    both = SMALL.replace("levels = [2, 8]", "levels = [1, true]").replace(
        "levels.clients = [2]", "levels.clients = [1]"
    )
    text = both.replace("where = { clients = 8 }", "where = { clients = true }").replace(
        "= { clients = 2", "= { clients = 1"
    )
    experiment = load(write(tmp_path, text))
    assert experiment.factors["clients"].levels == [1, True]
    assert experiment.quickly().claims == []
    assert list(experiment.quickly().dropped) == experiment.claims
    assert [line for line in problems(tmp_path, "clients = 8 }", "clients = true }") if "is no level" in line]


def test_what_is_no_number_keeps_no_limit() -> None:
    """NaN is neither above nor below, so a trial with it would be accepted."""
    rule = Acceptance(figure="errors", at_most=3)
    said = [rule.objection({"errors": value}) for value in (3, 4, float("nan"), None)]
    assert said == [None, "errors = 4, accepted up to 3", "errors = nan: is no number", "errors was not measured"]


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    """Nobody has to run it three times to learn of three slips."""
    broken = SMALL.replace("repetitions = 2", "repetitions = 0").replace('title = "A small experiment"', "")
    said = lab("run", write(tmp_path, broken), code=2).stderr.splitlines()
    assert len(said) == 2
    assert all(line.startswith(f"posthaste-lab: {tmp_path}/experiment.toml: ") for line in said)


def test_options_are_checked_against_the_programs_themselves(tmp_path: Path) -> None:
    """A misspelled option costs a sentence, not an hour; a part must start before others can name it."""
    broken = SMALL.replace('connect = "{tier}"', 'connect = "{tear}"\nmesage-bytes = 5')
    found = check_parts(load(write(tmp_path, broken)), here())
    assert found == [
        "parts.load.connect = '{tear}': {tear} is no part that starts before this one",
        "parts.load.mesage-bytes: bench queue has no such option; did you mean message-bytes?",
    ]


def test_a_load_that_checks_has_its_queues_to_itself(tmp_path: Path) -> None:
    """The program would refuse it in every trial; so would that be if a factor sets how many there are."""
    said = ["parts.load.check = True: needs its queues to itself, and there are 2 of it"]
    several = SMALL.replace("check = true", "check = true\ninstances = 2")
    assert check_parts(load(write(tmp_path, several)), here()) == said
    varied = SMALL.replace("[[claims]]", '[factors.loads]\nlevels = [1, 2]\nsets = "load.instances"\n[[claims]]')
    assert check_parts(load(write(tmp_path, varied)), here()) == said


def test_a_search_for_a_rate_is_no_trial(tmp_path: Path) -> None:
    """It takes many times as long, and each of its runs leaves a record of its own."""
    said = "parts.load.find-max-rate: makes many runs of run.duration, and a trial is one; make load.rate a factor"
    searching = SMALL.replace("check = true", 'check = true\nfind-max-rate = "p99<5ms"')
    assert check_parts(load(write(tmp_path, searching)), here()) == [said]
    varied = '[factors.limit]\nlevels = ["p99<5ms", "p99<9ms"]\nsets = "load.find-max-rate"\n[[claims]]'
    assert check_parts(load(write(tmp_path, SMALL.replace("[[claims]]", varied))), here()) == [said]
    without = SMALL.replace("check = true", "check = true\nfind-max-rate = false")
    assert check_parts(load(write(tmp_path, without)), here()) == []


def test_a_misspelt_figure_costs_a_sentence(tmp_path: Path) -> None:
    """And not the hours until the report finds nothing of that name."""
    slips = SMALL.replace("throughput_per_s", "throughput").replace(
        "[quick]",
        '[[accept]]\nfigure = "error"\nat_most = 0\n[report]\nresponse = ["response_mean_s", "reponse_p99_s"]\n[quick]',
    )
    said = lab("run", write(tmp_path, slips), "--dry-run", code=2).stderr
    assert [line.removeprefix(f"posthaste-lab: {tmp_path}/experiment.toml: ") for line in said.splitlines()] == [
        "accept.0.figure = 'error': is no figure; did you mean errors?",
        "claims.0.figure = 'throughput': is no figure; did you mean throughput_per_s?",
        "report.response = 'reponse_p99_s': is no figure; did you mean response_p99_s?",
        "report.response = ['response_mean_s', 'reponse_p99_s']: is for the effects of a design, of two factors or "
        "more with two levels each; leave it out",
    ]


def test_what_the_report_would_ignore_is_refused(tmp_path: Path) -> None:
    """Whoever asks for effects of three levels would look for them in vain."""
    second = '[factors.bytes]\nlevels = [100, 200]\nsets = "load.message-bytes"\n[[claims]]'
    text = SMALL.replace("[[claims]]", second).replace("[quick]", '[report]\ntransform = "log"\n[quick]')
    lab("run", write(tmp_path, text), "--dry-run")
    # The quick version has one level of a factor, and is no other question.
    lab("run", write(tmp_path, text), "--dry-run", "--quick")
    said = lab("run", write(tmp_path, text.replace("[100, 200]", "[100, 200, 300]")), "--dry-run", code=2).stderr
    assert "report.transform = ['log']: is for the effects of a design, of two factors or more" in said


@pytest.mark.parametrize(
    ("figure", "old", "new"),
    [
        ("response_p99_s", "check = true", "check = true\ninstances = 2"),
        ("violations", "check = true", ""),
        ("violations", "check = true", "check = false"),
        ("service_mean_s", 'kind = "queue"', 'kind = "memcached"'),
        ("response_mean_s", 'kind = "bench queue"', 'kind = "bench store"'),
    ],
    ids=["percentile of several", "nobody checks", "checks not", "no tier", "another load"],
)
def test_a_figure_that_these_parts_do_not_leave_is_refused(tmp_path: Path, figure: str, old: str, new: str) -> None:
    """It exists, but no trial would have it."""
    text = SMALL.replace("throughput_per_s", figure)
    assert figure_problems(load(write(tmp_path, text))) == []
    said = [f"claims.0.figure = {figure!r}: is a figure that no trial of these parts has"]
    assert figure_problems(load(write(tmp_path, text.replace(old, new)))) == said


def test_a_figure_that_some_trial_may_have_is_taken(tmp_path: Path) -> None:
    """One load in some trials has percentiles, a factor may switch the check on."""
    loads = '[factors.loads]\nlevels = [1, 2]\nsets = "load.instances"\n[[claims]]'
    checks = '[factors.checks]\nlevels = [false, true]\nsets = "load.check"\n[[claims]]'
    for figure, factor in (("response_p99_s", loads), ("violations", checks)):
        text = SMALL.replace("check = true", "").replace("throughput_per_s", figure).replace("[[claims]]", factor)
        assert figure_problems(load(write(tmp_path, text))) == []


def test_a_file_without_a_load_measures_nothing(tmp_path: Path) -> None:
    """And is refused."""
    tier_only = SMALL.replace('kind = "bench queue"', 'kind = "queue"').replace(
        'connect = "{tier}"\ncheck = true\n', ""
    )
    assert check_parts(load(write(tmp_path, tier_only.replace("load.clients", "load.batch"))), here()) == [
        "parts: none of tier, load is a load, so nothing would be measured"
    ]


@pytest.mark.parametrize(
    ("option", "value", "of"),
    [
        ("duration", '"3s"', "run.duration less run.trim"),
        ("warmup", '"1s"', "run.trim.head"),
        ("cooldown", '"1s"', "run.trim.tail"),
        ("window", '"1s"', "run.window"),
        ("seed", "3", "run.seed"),
    ],
)
def test_what_the_run_says_no_part_says_otherwise(tmp_path: Path, option: str, value: str, of: str) -> None:
    """The report tells the run's own, and repetitions of one seed would be the same requests over again."""
    said = [f"parts.load.{option}: is what {of} says, of every part and trial; set it there"]
    own = SMALL.replace("check = true", f"check = true\n{option} = {value}")
    assert check_parts(load(write(tmp_path, own)), here()) == said
    by_level = SMALL.replace('sets = "load.clients"', f'sets = ["load.clients", "load.{option}"]')
    assert check_parts(load(write(tmp_path, by_level)), here()) == said


def test_a_window_is_no_longer_than_what_is_measured(tmp_path: Path) -> None:
    """Or none may lie within it; where nobody records windows the default of a second stands in nobody's way."""
    longer = SMALL.replace('window = "50ms"', 'window = "400ms"')
    said = "run.window = 0.4 s: must be at most the 0.35 s that are measured, or no window of tier, load lies within"
    assert check_parts(load(write(tmp_path, longer)), here()) == [said]
    unset = said.replace("0.4 s:", "1 s (as it is unless you set it):")
    assert check_parts(load(write(tmp_path, SMALL.replace('window = "50ms"\n', ""))), here()) == [unset]
    as_long = load(write(tmp_path, SMALL.replace('window = "50ms"', 'window = "350ms"')))
    assert check_parts(as_long, here()) == []
    assert check_parts(load(ROOT / "experiments" / "database-alone.toml").quickly(), here()) == []


def test_a_share_is_trimmed_of_the_duration(tmp_path: Path) -> None:
    """12 % and 5 %, as one report has it."""
    shares = SMALL.replace('{ head = "100ms", tail = "50ms" }', '{ head = "12%", tail = "5%" }')
    assert load(write(tmp_path, shares)).trimmed == pytest.approx((0.06, 0.415, 0.025))


def test_no_part_is_called_as_an_instance_of_another(tmp_path: Path) -> None:
    """Each instance has a directory of its name, and the records of both would be one."""
    text = SMALL.replace("[parts.load]", '[parts.tier-2]\nkind = "queue"\nstore = "memory:"\n\n[parts.load]')
    assert check_parts(load(write(tmp_path, text)), here()) == []
    several = '[factors.tiers]\nlevels = [1, 2]\nsets = "tier.instances"\n[[claims]]'
    said = "parts.tier-2: is what instance 2 of parts.tier is called; call it something else"
    assert check_parts(load(write(tmp_path, text.replace("[[claims]]", several))), here()) == [said]


def test_a_load_of_so_many_requests_is_no_trial(tmp_path: Path) -> None:
    """The program takes a time or a number, and it is given the time."""
    said = "parts.load.requests: ends a load when all are done, and a trial lasts run.duration; leave it out"
    assert check_parts(load(write(tmp_path, SMALL.replace("check = true", "requests = 100"))), here()) == [said]
    assert check_parts(load(write(tmp_path, SMALL.replace("load.clients", "load.requests"))), here()) == [said]


def test_what_measures_all_it_does_is_not_trimmed(tmp_path: Path) -> None:
    """The trial would be shorter by that, and reports would tell that its ends were cut."""
    text = SMALL[: SMALL.index("[factors.clients]")]
    text = text.replace('kind = "bench queue"\nconnect = "{tier}"\ncheck = true', 'kind = "bench store"')
    (said,) = check_parts(load(write(tmp_path, text)), here())
    assert said.startswith("run.trim: cuts nothing of parts.load, since a bench store has no time before and after")
    assert said.endswith("take run.trim out")
    untrimmed = text.replace('trim = { head = "100ms", tail = "50ms" }', "")
    assert check_parts(load(write(tmp_path, untrimmed)), here()) == []


def test_zero_needs_no_unit(tmp_path: Path) -> None:
    """It is the same in all of them."""
    for tail in ("0", '"0"', "0.0"):
        assert load(write(tmp_path, SMALL.replace('tail = "50ms"', f"tail = {tail}"))).trimmed[2] == 0


def test_every_repetition_runs_every_combination_in_an_order_of_its_own() -> None:
    """Shuffled within each repetition, from the seed, and the same every time."""
    experiment = load(ROOT / "experiments" / "clients.toml")
    plan = make_plan(experiment)
    blocks = [[t.cell for t in plan.trials if t.repetition == r] for r in range(1, 6)]
    assert [t.place for t in plan.trials] == list(range(1, 41))
    assert all(sorted(block) == list(range(1, 9)) for block in blocks)
    assert len({tuple(block) for block in blocks}) == 5
    assert make_plan(experiment) == plan
    other = experiment.model_copy(update={"run": experiment.run.model_copy(update={"seed": 60})})
    assert make_plan(other).trials != plan.trials


def test_levels_set_options_of_parts_or_several_at_once(tmp_path: Path) -> None:
    """A level may stand for several settings, and for the number of instances."""
    text = SMALL.replace(
        "[[claims]]",
        """
[factors.setup]
levels = ["plain", "large"]
[factors.setup.settings.plain]
"tier.batch" = 1
[factors.setup.settings.large]
"tier.batch" = 64
"tier.instances" = 2

[[claims]]""",
    )
    experiment = load(write(tmp_path, text))
    assert check_parts(experiment, here()) == []
    last = max(make_plan(experiment).trials, key=lambda trial: trial.cell)
    assert last.levels == {"clients": 8, "setup": "large"}
    options = options_of(experiment, last)
    assert options["tier"] == (2, {"store": "embedded:{dir}/store", "batch": 64})
    assert options["load"][1]["clients"] == 8


def test_a_run_has_no_more_trials_than_anybody_waits_for(tmp_path: Path) -> None:
    """All of them are laid out before the first is run: of ten factors with ten levels no memory would hold them."""
    levels = f"levels = {list(range(1, 11))}"
    more = "".join(f'[factors.f{n}]\n{levels}\nsets = "tier.option-{n}"\n' for n in range(9))
    text = SMALL[: SMALL.index("[[claims]]")].replace("levels = [2, 8]", levels) + more
    with pytest.raises(BadExperiment, match="10,000,000,000 combinations, each run 2 times, are more than the 100,000"):
        load(write(tmp_path, text))


def test_a_level_asks_for_no_more_instances_than_a_part_may(tmp_path: Path) -> None:
    """A thousand, whoever says how many."""
    text = SMALL[: SMALL.index("[[claims]]")].replace("load.clients", "tier.instances").replace("[2, 8]", "[1, 1001]")
    said = check_parts(load(write(tmp_path, text)), here())
    assert said == ["tier.instances = 1001: must be a whole number from 1 to 1000"]


@pytest.mark.parametrize("levels", ["[true, false]", "[0.5, 1e6]", '["a b", "1"]'])
def test_a_level_has_its_table_by_the_name_it_has_in_the_file(tmp_path: Path, levels: str) -> None:
    """A key of TOML is a text: `true`, and a number as it was written."""
    first, second = levels.strip("[]").split(", ")
    keys = [key if key.startswith('"') else f'"{key}"' for key in (first, second)]
    tables = f'settings = {{ {keys[0]} = {{ "load.clients" = 3 }}, {keys[1]} = {{}} }}'
    text = SMALL[: SMALL.index("[[claims]]")].replace('sets = "load.clients"', tables).replace("[2, 8]", levels)
    experiment = load(write(tmp_path, text))
    options = [options_of(experiment, trial)["load"][1].get("clients") for trial in make_plan(experiment).trials]
    assert sorted(map(str, options)) == ["3", "3", "None", "None"]


def test_a_fraction_runs_its_share_and_tells_its_aliases(tmp_path: Path) -> None:
    """2^(3-1): four combinations, each main effect mixed with an interaction."""
    text = SMALL.split("[factors.clients]")[0] + "".join(
        f'[factors.{name}]\nlevels = [{low}, {high}]\nsets = "load.{name}"\n'
        for name, low, high in (("clients", 1, 4), ("message-bytes", 10, 100), ("threads", 1, 2))
    )
    text += '[design]\ngenerators = ["C=AB"]\n'
    experiment = load(write(tmp_path, text))
    plan, found = make_plan(experiment), aliased(experiment)
    assert plan.cells == 4
    assert len({tuple(trial.levels.values()) for trial in plan.trials}) == 4
    assert found is not None
    assert found.resolution == 3
    shown = lab("run", write(tmp_path, text), "--dry-run").stdout
    assert "4 combinations x 2 repetitions = 8 trials of 0.5 s" in shown
    assert "a fraction of resolution 3: I = clients:message-bytes:threads" in shown
    assert "clients = message-bytes:threads" in shown


@pytest.mark.parametrize("path", sorted((ROOT / "experiments").glob("*.toml")), ids=lambda path: path.stem)
def test_the_experiments_that_come_along_are_sound(path: Path) -> None:
    """In both versions, options included; a dry run of each shows its trials and runs nothing."""
    experiment = load(path)
    assert check_parts(experiment, here()) == []
    assert check_parts(experiment.quickly(), here()) == []
    assert figure_problems(experiment) == figure_problems(experiment.quickly()) == unused_rules(experiment) == []
    # Figures of trials decide each of them, but where it is about the model: then `validate` does.
    assert bool(experiment.claims) != ("posthaste-lab validate says" in experiment.hypothesis)
    assert experiment.run.repetitions > 1, "one decides no claim, whatever is measured"
