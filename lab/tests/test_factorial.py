"""Designs and effects: Jain's examples, statsmodels and scipy, one report's sign table, brute force for aliases."""

import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy import stats as sp
from statsmodels.stats.anova import anova_lm

from posthaste_lab import factorial
from posthaste_lab.errors import BadArgument
from posthaste_lab.factorial.design import Signs
from posthaste_lab.factorial.plots import one_over

DATA = Path(__file__).parent / "data"
MEMORY_CACHE = [[15, 18, 12], [45, 48, 51], [25, 28, 19], [75, 75, 81]]


def places(line: Line2D) -> dict[float, float]:
    """The points of a line: y by x."""
    return dict(np.asarray(line.get_xydata(), dtype=np.float64).tolist())


def approx(value: object, rel: float = 1e-9) -> object:
    """Equal, but for rounding."""
    return pytest.approx(value, rel=rel, abs=1e-9)


def test_standard_order() -> None:
    """The first factor changes fastest; replications are further blocks."""
    assert factorial.design(["A", "B"]).tolist() == [[-1, -1], [1, -1], [-1, 1], [1, 1]]
    assert factorial.design(2, replications=2).tolist() == [[-1, -1], [1, -1], [-1, 1], [1, 1]] * 2
    assert factorial.design(4, generators=["D=ABC"])[:, 3].tolist() == [-1, 1, 1, -1, 1, -1, -1, 1]
    assert factorial.design(4, generators=["D=-ABC"])[:, 3].tolist() == [1, -1, -1, 1, -1, 1, 1, -1]


def test_a_generator_may_bring_a_factor_of_its_own() -> None:
    """Three factors and "D=ABC" are four, in eight runs; the same as four of which D is generated."""
    assert factorial.design(3, generators=["D=ABC"]).tolist() == factorial.design(4, generators=["D=ABC"]).tolist()
    assert factorial.aliases(3, ["D=ABC"]) == factorial.aliases(4, ["D=ABC"])


def test_a_seed_shuffles_and_repeats() -> None:
    """The same runs in another order; the same order from the same seed."""
    plain = factorial.design(3, replications=3)
    shuffled = factorial.design(3, replications=3, seed=4)
    assert sorted(map(tuple, shuffled.tolist())) == sorted(map(tuple, plain.tolist()))
    assert shuffled.tolist() != plain.tolist()
    assert shuffled.tolist() == factorial.design(3, replications=3, seed=4).tolist()


def test_shuffled_runs_are_collected_into_cells() -> None:
    """Each cell's responses in a row, cells in standard order; an unbalanced set is refused."""
    rows = factorial.design(3, replications=2, seed=1)
    signs, responses = factorial.collect(rows, [float(row @ (1, 10, 100)) for row in rows])
    assert signs.tolist() == factorial.design(3).tolist()
    assert responses.shape == (8, 2)
    assert all(r == approx(cell @ (1, 10, 100)) for cell, row in zip(signs, responses, strict=True) for r in row)
    with pytest.raises(BadArgument, match="general"):
        factorial.collect(rows[:-1], np.arange(15.0))


@pytest.mark.parametrize(
    ("k", "generators", "resolution", "words"),
    [
        (3, [], 0, 0),
        (3, ["C=AB"], 3, 1),
        (4, ["D=ABC"], 4, 1),
        (5, ["E=ABCD"], 5, 1),
        (5, ["D=AB", "E=AC"], 3, 3),
        (6, ["E=ABC", "F=BCD"], 4, 3),
        (7, ["D=AB", "E=AC", "F=BC", "G=ABC"], 3, 15),
        (8, ["E=BCD", "F=ACD", "G=ABC", "H=ABD"], 4, 15),
        (7, ["G=ABCDEF"], 7, 1),
    ],
)
def test_resolutions_known_from_tables(k: int, generators: list[str], resolution: int, words: int) -> None:
    """Box, Hunter and Hunter's standard fractions."""
    found = factorial.aliases(k, generators)
    assert found.resolution == resolution
    assert len(found.defining_relation) == words
    assert found.runs == 2 ** (k - len(generators))
    assert len(found.sets) == found.runs


@given(st.data())
def test_aliases_are_what_equal_columns_say(data: st.DataObject) -> None:
    """Any generators at all: every pair of effects is aliased exactly if their columns are equal or opposite."""
    base, extra = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 3))
    letters = "ABCDEFG"[: base + extra]
    words = st.sets(st.sampled_from(letters[:base]), min_size=2)
    generators = [
        f"{letters[base + i]}={data.draw(st.sampled_from(['', '-']))}{''.join(sorted(data.draw(words)))}"
        for i in range(extra)
    ]
    found = factorial.aliases(len(letters), generators)
    signs = factorial.design(len(letters), generators=generators)

    def column(effect: str) -> Signs:
        bare = effect.lstrip("-")
        chosen = [] if bare == "I" else [letters.index(c) for c in bare.split(":")]
        return np.asarray(signs[:, chosen].prod(axis=1) * (-1 if effect.startswith("-") else 1))

    assert sum(len(members) for members in found.sets.values()) == 2 ** len(letters)
    firsts = [column(first) for first in found.sets]
    assert np.array_equal(np.array(firsts) @ np.array(firsts).T, len(signs) * np.eye(len(firsts)))
    for first, members in found.sets.items():
        assert all(np.array_equal(column(first), column(member)) for member in members)
    shortest = min(
        (
            len(c)
            for n in range(1, len(letters) + 1)
            for c in itertools.combinations(range(len(letters)), n)
            if abs(signs[:, c].prod(axis=1).sum()) == len(signs)
        ),
        default=0,
    )
    assert found.resolution == shortest


def test_aliases_are_asked_by_name() -> None:
    """Also with names longer than a letter."""
    found = factorial.aliases(["cpu", "memory", "disk"], ["disk=cpu:memory"])
    assert found.of("disk") == ("cpu:memory",)
    assert found.defining_relation == ("cpu:memory:disk",)
    with pytest.raises(BadArgument, match="effect"):
        found.of("tape")


def test_an_alias_has_the_sign_it_has_beside_the_effect_asked_for() -> None:
    """C = -AB: each of the three is the contrary of the product of the others, whichever comes first in its set."""
    found = factorial.aliases(3, ["C=-AB"])
    assert found.of("C") == ("-A:B",)
    assert found.of("A:B") == ("-C",)
    assert found.of("-A:B") == ("C",)
    assert found.of("A:B:C") == ("-I",)


def test_where_nothing_varies_nothing_is_tested() -> None:
    """0 / 0 is no certainty: F and p are not known."""
    line = factorial.one_factor([[5.0, 5.0], [5.0, 5.0]]).table[0]
    assert math.isnan(line.f)
    assert math.isnan(line.p)
    line = factorial.one_factor([[5.0, 5.0], [6.0, 6.0]]).table[0]
    assert (line.f, line.p) == (math.inf, 0.0)


@pytest.mark.parametrize("generator", ["D", "D=A", "D=AD", "A=BC", "D=AX", "D=AA", "=AB", "AB=CD", "AC=BD", "C:D=AB"])
def test_a_generator_that_means_nothing_is_refused(generator: str) -> None:
    """Whatever is wrong with it, it is quoted."""
    generators = [generator] if generator != "A=BC" else ["A=BC", "D=AB"]
    with pytest.raises(BadArgument, match="generators"):
        factorial.design(4, generators=generators)


def test_memory_and_cache_of_jain() -> None:
    """Chapters 17 and 18: 41 + 21.5 A + 9.5 B + 5 AB, errors of 102, an effect's deviation of 1.03."""
    e = factorial.analyze(factorial.design(2), MEMORY_CACHE, ["A", "B"])
    assert e.effects == {"I": 41, "A": 21.5, "B": 9.5, "A:B": 5}
    assert (e.mean, e.sse, e.sst) == (41, approx(102), approx(7032))
    assert e.variation["A"] == approx(0.7888, rel=1e-3)
    assert e.variation["B"] == approx(0.1540, rel=1e-3)
    assert e.variation["A:B"] == approx(0.0427, rel=1e-3)
    assert e.variation["error"] == approx(0.0145, rel=1e-3)
    assert e.standard_error == approx(1.03, rel=1e-3)
    assert e.error_stdev == approx(3.57, rel=1e-3)
    assert e.residuals.tolist() == [[0, 3, -3], [-3, 0, 3], [1, 4, -5], [-2, -2, 4]]
    assert all(e.significant.values())
    # The book's t is that of one side; with two sides of 90 % it is 1.86, and A lies between 19.6 and 23.4.
    ninety = factorial.analyze(factorial.design(2), MEMORY_CACHE, ["A", "B"], confidence=0.9)
    assert ninety.intervals["A"] == approx((21.5 - 1.8595 * 1.0308, 21.5 + 1.8595 * 1.0308), rel=1e-4)


@given(
    st.integers(1, 4).flatmap(
        lambda k: st.tuples(
            st.just(k),
            st.integers(2, 4).flatmap(
                lambda r: st.lists(st.lists(st.floats(1, 1e4), min_size=r, max_size=r), min_size=2**k, max_size=2**k)
            ),
        )
    ),
    st.sampled_from(["none", "log", "reciprocal"]),
)
def test_every_figure_is_that_of_least_squares(case: tuple[int, list[list[float]]], transform: str) -> None:
    """Effects, intervals, predictions and shares, against statsmodels' regression on the same columns."""
    k, responses = case
    signs = factorial.design(k)
    e = factorial.analyze(signs, responses, transform=transform)  # type: ignore[arg-type]
    raw = np.array(responses)
    y = {"none": raw, "log": np.log(raw), "reciprocal": 1 / raw}[transform]
    names = list(e.effects)
    letters = list(e.names)
    matrix = np.array(
        [[np.prod([row[letters.index(f)] for f in n.split(":")]) if n != "I" else 1 for n in names] for row in signs]
    )
    repetitions = y.shape[1]
    fit = sm.OLS(y.ravel(), np.repeat(matrix, repetitions, axis=0)).fit()
    scale = np.abs(y).max()
    np.testing.assert_allclose([e.effects[n] for n in names], fit.params, rtol=1e-7, atol=1e-9 * scale)
    if e.sse > 1e-12 * scale**2:
        np.testing.assert_allclose(e.standard_error, fit.bse[0], rtol=1e-6)
        np.testing.assert_allclose([e.intervals[n] for n in names], fit.conf_int(), rtol=1e-6, atol=1e-7 * scale)
        assert sum(e.variation.values()) == approx(1)
    if transform == "none" and e.sse > 1e-9 * scale**2:
        frame = fit.get_prediction(matrix[:1]).summary_frame()
        mean, single = e.predict(signs[0].tolist()), e.predict(signs[0].tolist(), future=1)
        assert tuple(mean) == approx((frame["mean_ci_lower"][0], frame["mean_ci_upper"][0]), rel=1e-6)
        assert tuple(single) == approx((frame["obs_ci_lower"][0], frame["obs_ci_upper"][0]), rel=1e-6)


def test_repetitions_as_blocks_of_montgomery() -> None:
    """Design and Analysis of Experiments, section 7.2: a reaction's yield over three batches of raw material."""
    responses = [[28, 25, 27], [36, 32, 32], [18, 19, 23], [31, 30, 29]]
    e = factorial.analyze(factorial.design(2), responses, ["A", "B"], blocked=True)
    squares = {name: share * e.sst for name, share in e.variation.items()}
    assert {name: round(each, 2) for name, each in squares.items()} == {
        "A": 208.33,
        "B": 75.0,
        "A:B": 8.33,
        "repetitions": 6.5,
        "error": 24.83,
    }
    assert e.degrees_of_freedom == 6
    assert squares["A"] / e.error_stdev**2 == pytest.approx(50.32, abs=0.03)
    assert [name for name, real in e.significant.items() if not real] == ["A:B"]
    # Without blocks there are 8 degrees of freedom, and the batches are error.
    plain = factorial.analyze(factorial.design(2), responses, ["A", "B"])
    assert (plain.degrees_of_freedom, plain.sse) == (8, approx(e.sse + 6.5))


@given(st.integers(1, 3), st.integers(2, 5), st.integers(0, 10**6))
def test_blocks_are_least_squares_with_a_column_for_each(k: int, repetitions: int, seed: int) -> None:
    """Effects and their intervals are statsmodels'; the mean, a cell and a future one have Student's over blocks."""
    rng = np.random.default_rng(seed)
    signs = factorial.design(k)
    y = rng.normal(10, 1, (len(signs), repetitions)) + rng.normal(0, 20, repetitions)
    e = factorial.analyze(signs, y, blocked=True)
    names = [name for name in e.effects if name != "I"]
    matrix = np.array([[np.prod([row[e.names.index(f)] for f in n.split(":")]) for n in names] for row in signs])
    frame = pd.DataFrame(np.repeat(matrix, repetitions, axis=0), columns=[f"x{i}" for i in range(len(names))])
    frame["y"], frame["block"] = y.ravel(), np.tile(np.arange(repetitions), len(signs))
    fit = smf.ols("y ~ C(block, Sum) + " + " + ".join(frame.columns[: len(names)]), frame).fit()
    assert e.degrees_of_freedom == fit.df_resid
    assert [e.effects[n] for n in names] == approx(list(fit.params[-len(names) :]), rel=1e-6)
    np.testing.assert_allclose([e.intervals[n] for n in names], fit.conf_int()[-len(names) :], rtol=1e-6)
    assert e.standard_error == approx(fit.bse.iloc[-1], rel=1e-6)
    np.testing.assert_allclose(e.residuals.ravel(), fit.resid, atol=1e-9)
    assert e.variation["repetitions"] * e.sst == approx(anova_lm(fit, typ=2)["sum_sq"]["C(block, Sum)"], rel=1e-6)
    assert sum(e.variation.values()) == approx(1)
    assert tuple(e.contrast({names[0]: 2})) == approx(tuple(2 * end for end in e.intervals[names[0]]), rel=1e-6)

    means = sp.t.interval(0.95, repetitions - 1, y.mean(), sp.sem(y.mean(axis=0)))
    assert tuple(e.intervals["I"]) == approx(means)
    assert tuple(e.contrast({"I": 1})) == approx(means)
    cell = y[-1]
    assert tuple(e.predict(signs[-1].tolist())) == approx(
        sp.t.interval(0.95, repetitions - 1, cell.mean(), sp.sem(cell)), rel=1e-6
    )
    half = sp.t.ppf(0.975, repetitions - 1) * cell.std(ddof=1) * math.sqrt(1 / repetitions + 1)
    assert e.predict(signs[-1].tolist(), future=1).high == approx(cell.mean() + half, rel=1e-6)


def test_one_block_is_no_repetition() -> None:
    """There is nothing to tell chance by, as without blocks."""
    e = factorial.analyze(factorial.design(2), [15, 45, 25, 75], blocked=True)
    assert (e.intervals, "repetitions" in e.variation, e.contrast({"I": 1}).high) == ({}, False, math.inf)


def test_what_blocks_do_is_no_reason_for_either_model() -> None:
    """Sums stay sums on a machine that gets ten times faster by the third repetition."""
    cells = [[1 + (a > 0) + 2 * (b > 0)] for a, b in factorial.design(2)]
    still = factorial.analyze(factorial.design(2), np.repeat(cells, 3, axis=1), blocked=True)
    drifting = factorial.analyze(factorial.design(2), np.add(cells, [0, 5, 50]), blocked=True)
    assert still.advice.startswith("additive")
    assert "0.00% of the variation of the responses" in drifting.advice


def test_contrasts_and_predictions_of_jain() -> None:
    """Chapter 18: q_A - q_B with its interval; one future run, five, and the mean of infinitely many."""
    e = factorial.analyze(factorial.design(2), MEMORY_CACHE, ["A", "B"], confidence=0.9)
    t = sp.t.ppf(0.95, 8)
    assert e.contrast({"A": 1, "B": -1}).value == 12
    assert tuple(e.contrast({"A": 1, "B": -1})) == approx(
        (12 - t * math.sqrt(2 * 102 / 8 / 12), 12 + t * math.sqrt(2 * 102 / 8 / 12))
    )
    for future, spread in ((1, 1 / 3 + 1), (5, 1 / 3 + 1 / 5), (None, 1 / 3)):
        half = t * math.sqrt(102 / 8 * spread)
        assert tuple(e.predict([-1, -1], future=future)) == approx((15 - half, 15 + half))
    assert e.predict({"A": 1, "B": -1}).mean == approx(48)


def test_a_sign_table_of_the_reports() -> None:
    """Effects and shares of a published 2^3 design with three repetitions; with intervals, two are not significant."""
    table = pl.read_csv(DATA / "sign_table_write_only.csv")
    printed = {row["effect"]: row for row in pl.read_csv(DATA / "effects_write_only.csv").to_dicts()}
    signs = table.select("M", "W", "S").to_numpy()
    e = factorial.analyze(signs, table.select("tp1_rps", "tp2_rps", "tp3_rps").to_numpy(), ["M", "W", "S"])
    names = {"M": "M", "W": "W", "S": "S", "MW": "M:W", "MS": "M:S", "WS": "W:S", "MWS": "M:W:S"}
    for short, name in names.items():
        assert e.effects[name] == approx(printed[short]["tp_effect_rps"], rel=2e-3) or abs(e.effects[name]) < 10
        assert 100 * e.variation[name] == pytest.approx(printed[short]["tp_variation_pct"], abs=0.01)
    # Printed by subtraction from means that had been cut, 0.25; from the residuals it is less.
    assert 100 * e.variation["error"] == pytest.approx(0.232, abs=0.001)
    assert sum(e.variation.values()) == approx(1)
    assert e.intervals["M:S"].half_width == pytest.approx(192, abs=1)
    assert [name for name, real in e.significant.items() if not real] == ["M:S", "M:W:S"]


def test_the_reports_call_the_models_alike_and_they_are_not() -> None:
    """With logarithms the interaction of middlewares and workers is 2.4 % of the variation, not 0.14 %."""
    table = pl.read_csv(DATA / "sign_table_write_only.csv")
    signs, y = table.select("M", "W", "S").to_numpy(), table.select("tp1_rps", "tp2_rps", "tp3_rps").to_numpy()
    plain, logged = factorial.analyze(signs, y, ["M", "W", "S"]), factorial.analyze(signs, y, ["M", "W", "S"], "log")
    assert plain.variation["M:W"] == pytest.approx(0.0014, abs=1e-4)
    assert logged.variation["M:W"] == pytest.approx(0.024, abs=1e-3)
    assert plain.advice.startswith("additive")


def test_a_system_of_ratios_is_told_from_a_system_of_sums() -> None:
    """Processors and benchmarks multiply (Jain, chapter 18); milliseconds of stations add."""
    ratios = [[85.1, 79.5, 147.9], [0.891, 1.047, 1.072], [0.955, 0.933, 1.122], [0.0148, 0.0126, 0.0118]]
    e = factorial.analyze(factorial.design(2), ratios)
    assert e.advice.startswith("multiplicative")
    assert "additive" not in e.advice
    logged = factorial.analyze(factorial.design(2), ratios, transform="log")
    assert logged.variation["A"] + logged.variation["B"] > 0.99
    # 10^0.03 times as Jain's decimal logarithm has it: the mean there is 0.03, and effects -0.97 and -0.97.
    assert logged.effects["I"] / math.log(10) == pytest.approx(0.03, abs=0.01)
    assert logged.effects["A"] / math.log(10) == pytest.approx(-0.97, abs=0.01)
    assert logged.multipliers["A"] == approx(math.exp(2 * logged.effects["A"]))
    alone = factorial.analyze(
        factorial.design(3), [float(np.prod(np.where(c > 0, 5.0, 1.0))) for c in factorial.design(3)]
    )
    assert alone.advice.startswith("multiplicative")
    rng = np.random.default_rng(1)
    sums = [[2 + 5 * (a > 0) + 20 * (b > 0) + rng.normal(0, 0.3) for _ in range(3)] for a, b in factorial.design(2)]
    assert factorial.analyze(factorial.design(2), sums).advice.startswith("additive")
    assert factorial.analyze(factorial.design(1), [[0, 1], [2, 3]]).advice.startswith("additive")
    # Of one factor both models explain all; what arithmetic leaves says nothing.
    two = factorial.analyze(factorial.design(1), [[4.557135459571601], [57.34109589502297]])
    assert two.advice.startswith("additive")


def test_predictions_on_logarithms_are_not_symmetric() -> None:
    """The interval is back in the unit of the responses, and around a geometric mean."""
    e = factorial.analyze(factorial.design(1), [[10, 12], [100, 140]], transform="log")
    p = e.predict([1], future=1)
    assert p.mean == approx(math.sqrt(100 * 140))
    assert p.high - p.mean > p.mean - p.low > 0
    r = factorial.analyze(factorial.design(1), [[10, 12], [100, 140]], transform="reciprocal").predict([1])
    assert 0 < r.low < r.mean < r.high


def test_without_repetitions_nothing_is_significant() -> None:
    """And it says that there is no error term, instead of giving intervals of width zero."""
    e = factorial.analyze(factorial.design(2), [15, 45, 25, 75])
    assert e.effects["I"] == 40
    assert e.intervals == {}
    assert e.significant == {}
    assert math.isnan(e.standard_error)
    assert "no error term" in e.notes[0]
    assert e.predict([1, 1]).high == math.inf
    assert e.contrast({"A": 1}).low == -math.inf
    assert not e.contrast({"A": 1}).significant


def test_without_repetitions_large_effects_still_stand_out() -> None:
    """Lenth's margin by hand: noise of 1 to 5, a first guess of 6, an error of 4.5, t with 7/3 degrees."""
    effects = {"I": 100.0, "A": 50.0, "B": -30.0, "A:B": 1.0, "C": 2.0, "A:C": -3.0, "B:C": 4.0, "A:B:C": 5.0}
    first = 1.5 * 4
    error = 1.5 * np.median([1, 2, 3, 4, 5])
    assert first * 2.5 < 30
    assert factorial.lenth_margin(effects, 0.95) == approx(sp.t.ppf(0.975, 7 / 3) * error)
    signs = factorial.design(3)
    rng = np.random.default_rng(2)
    e = factorial.analyze(signs, [100 + 50 * a - 30 * b + rng.normal() for a, b, _ in signs])
    assert "A, B of them stand out" in e.notes[1]
    assert "for each by itself: of effects that do nothing, up to one in 20 stands out all the same" in e.notes[1]


def test_noise_alone_seldom_stands_out() -> None:
    """Of the fifteen effects of four factors that do nothing one in twenty at most; some in a quarter of designs."""
    rng = np.random.default_rng(3)
    beyond = []
    for _ in range(1000):
        effects = {f"e{i}": value for i, value in enumerate(rng.normal(size=15))}
        margin = factorial.lenth_margin(effects, 0.95)
        beyond.append(sum(abs(value) > margin for value in effects.values()))
    assert 0.02 < np.mean(beyond) / 15 < 0.05
    assert 0.2 < np.mean(np.array(beyond) > 0) < 0.3


def test_a_fraction_names_each_effect_by_its_simplest_alias() -> None:
    """A 2^(4-1): eight effects, each standing for two."""
    signs = factorial.design(4, generators=["D=ABC"])
    responses = [[float(3 + 2 * row[0] - row[3] + 0.5 * row[0] * row[1])] * 2 for row in signs]
    e = factorial.analyze(signs, responses)
    assert len(e.effects) == 8
    assert e.effects["A"] == approx(2)
    assert e.effects["D"] == approx(-1)
    assert e.effects["A:B"] == approx(0.5)
    assert e.aliases["A:B"] == ("C:D",)
    assert any("fraction" in note for note in e.notes)
    with pytest.raises(BadArgument, match="fraction"):
        e.predict([1, -1, -1, -1])


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: factorial.analyze([[0, 1], [1, 0]], [1, 2]), "signs"),
        (lambda: factorial.analyze([[1], [1]], [1, 2]), "signs"),
        (lambda: factorial.analyze([[-1, -1], [1, 1]], [1, 2]), None),
        (lambda: factorial.analyze([[-1], [1], [1]], [1, 2, 3]), "signs"),
        (lambda: factorial.analyze([[-1, -1], [1, -1], [-1, 1], [-1, 1]], [1, 2, 3, 4]), "signs"),
        (lambda: factorial.analyze(factorial.design(2), [1, 2, 3]), "responses"),
        (lambda: factorial.analyze(factorial.design(1), [1, math.nan]), "responses"),
        (lambda: factorial.analyze(factorial.design(1), [0, 1], transform="log"), "responses"),
        (lambda: factorial.analyze(factorial.design(1), [1, 2], transform="sqrt"), "transform"),  # type: ignore[arg-type]
        (lambda: factorial.analyze(factorial.design(1), [1, 2], ["A", "B"]), "names"),
        (lambda: factorial.analyze(factorial.design(1), [1, 2], ["error"]), "names"),
        (lambda: factorial.analyze(factorial.design(1), [1, 2]).contrast({"Q": 1}), "weights"),
        (lambda: factorial.analyze(factorial.design(1), [1, 2]).predict([0]), "cell"),
        (lambda: factorial.design(0), "factors"),
        (lambda: factorial.design(["A", "A"]), "factors"),
    ],
)
def test_bad_input_is_refused_by_name(call: object, argument: str | None) -> None:
    """What is no two-level design is not analyzed as one. Two factors in two runs are one, with aliases."""
    if argument is None:
        assert call().aliases == {"A": ("B",), "I": ("A:B",)}  # type: ignore[operator]
        return
    with pytest.raises(BadArgument) as caught:
        call()  # type: ignore[operator]
    assert caught.value.argument == argument


def test_one_factor_of_jain() -> None:
    """Chapter 20: code sizes on three processors differ by 10.4 %, and F = 0.7 says by chance."""
    sizes = {"R": [144, 120, 176, 288, 144], "V": [101, 144, 211, 288, 72], "Z": [130, 180, 141, 374, 302]}
    one = factorial.one_factor(sizes)
    assert one.grand_mean == approx(187.7, rel=1e-3)
    assert one.effects == approx({"R": -13.3, "V": -24.5, "Z": 37.7}, rel=0.01)
    assert one.table[0].variation == approx(0.104, rel=0.01)
    assert one.error_stdev == approx(88.7, rel=1e-3)
    f, p = sp.f_oneway(*sizes.values())
    assert (one.f, one.p) == approx((f, p))


@given(st.lists(st.lists(st.floats(-100, 100), min_size=2, max_size=6), min_size=2, max_size=5))
def test_one_factor_is_scipy_s_and_statsmodels_own(groups: list[list[float]]) -> None:
    """F and p, and the interval of each difference, for levels of different sizes."""
    one = factorial.one_factor(groups)
    if one.table[1].sum_squares < 1e-6:
        return
    f, p = sp.f_oneway(*groups)
    if f > 1e-9:  # scipy's may be a little below 0, and its p is NaN then
        assert (one.f, one.p) == approx((f, p), rel=1e-6)
    y = np.concatenate(groups)
    level = np.repeat(np.arange(len(groups)), [len(g) for g in groups])
    fit = sm.OLS(y, (level[:, None] == np.arange(len(groups))).astype(float)).fit()
    contrast = np.zeros(len(groups))
    contrast[0], contrast[1] = 1, -1
    ends = fit.t_test(contrast).conf_int()[0]
    assert one.differences["1", "2"] == approx(tuple(ends), rel=1e-6)


def test_two_factors_of_jain() -> None:
    """Chapter 21: caches and workloads; columns take 95.9 %, rows are not significant."""
    two = factorial.two_factor([[54, 55, 106], [60, 60, 123], [43, 43, 120], [49, 52, 111], [49, 50, 108]])
    assert two.grand_mean == approx(72.2)
    assert list(two.column_effects.values()) == approx([-21.2, -20.2, 41.4])
    assert two.row("columns").variation == approx(0.959, rel=1e-3)
    assert two.row("rows").f == approx(2.6, rel=0.01)
    assert two.row("rows").p > 0.05
    assert two.interactions is None
    assert "without repetitions" in two.notes[0]


@given(st.integers(2, 4), st.integers(2, 4), st.integers(1, 3), st.integers(0, 10**6))
def test_two_factors_are_statsmodels_own(rows: int, columns: int, repetitions: int, seed: int) -> None:
    """The whole table of variance, with repetitions and without, and the intervals of effects."""
    y = np.random.default_rng(seed).normal(10, 3, (rows, columns, repetitions))
    two = factorial.two_factor(y, row_levels=[f"r{i}" for i in range(rows)])
    a, b, _ = np.indices(y.shape)
    data = pd.DataFrame({"y": y.ravel(), "a": a.ravel(), "b": b.ravel()})
    together = "*" if repetitions > 1 else "+"
    fit = smf.ols(f"y ~ C(a, Sum){together}C(b, Sum)", data).fit()
    table = anova_lm(fit, typ=2)
    assert two.row("rows").f == approx(table.loc["C(a, Sum)", "F"], rel=1e-6)
    assert two.row("columns").p == approx(table.loc["C(b, Sum)", "PR(>F)"], rel=1e-6)
    if repetitions > 1:
        assert two.row("interaction").p == approx(table.loc["C(a, Sum):C(b, Sum)", "PR(>F)"], rel=1e-6)
    ends = fit.conf_int().loc["C(a, Sum)[S.0]"]
    assert two.row_intervals["r0"] == approx(tuple(ends), rel=1e-6)


def test_residual_plots_are_drawn_for_every_kind() -> None:
    """Four panels with titles and labeled axes; without repetitions it says why three are empty."""
    full = factorial.analyze(factorial.design(2), MEMORY_CACHE)
    figure = factorial.plot_residuals(full, "MIPS")
    assert isinstance(figure, Figure)
    assert all(axis.get_title() and axis.get_xlabel() for axis in figure.axes)
    assert "MIPS" in figure.axes[0].get_xlabel()
    assert figure.axes[2].get_title() == "Cell by cell"
    turns = [[4, 5, 12], [1, 8, 10], [3, 6, 9], [2, 7, 11]]
    ran = factorial.plot_residuals(full, "MIPS", turns).axes[2]
    assert "order of the runs" in ran.get_title()
    (drawn,) = (line for line in ran.lines if len(places(line)) == full.residuals.size)
    assert places(drawn) == dict(zip(np.ravel(turns).tolist(), full.residuals.ravel().tolist(), strict=True))
    drifting = factorial.analyze(factorial.design(1), [[1.0, 11, 21], [2, 12, 22.5]], blocked=True)
    (_, dots) = factorial.plot_residuals(drifting, "MIPS", [[1, 3, 6], [2, 4, 5]]).axes[2].lines
    height = places(dots)
    assert height[6] - height[1] > 19, "a drift from one repetition to the next is seen as well"
    with pytest.raises(BadArgument, match="turns"):
        factorial.plot_residuals(full, "MIPS", [1, 2, 3])
    empty = factorial.plot_residuals(factorial.analyze(factorial.design(2), [1, 2, 3, 5.0]))
    assert "no residuals" in empty.axes[0].texts[0].get_text()


def test_an_effect_that_is_not_significant_is_an_empty_square() -> None:
    """In the figure of residuals as in the chart of effects."""
    found = factorial.analyze(factorial.design(2), [[10.0, 11.0], [20.0, 21.0], [10.0, 11.2], [20.1, 21.0]])
    assert found.significant == {"I": True, "A": True, "B": False, "A:B": False}
    effects = factorial.plot_residuals(found).axes[3]
    faces = {effects.get_yticklabels()[int(*places(line).values())].get_text(): line.get_markerfacecolor()
             for line in effects.lines if line.get_marker() == "s"}  # fmt: skip
    assert {name for name, face in faces.items() if face != "white"} == {"A"}
    assert len(faces) == 3


def test_axes_of_effects_have_plain_numbers() -> None:
    """Separators of thousands, no factor in a corner; one over a rate is a time."""
    rates = factorial.analyze(factorial.design(1), [[0.01, 0.011], [0.03, 0.031]], transform="reciprocal")
    figure = factorial.plot_residuals(rates, "requests per μs")
    assert "(μs per request)" in figure.axes[3].get_xlabel()
    assert figure.axes[3].xaxis.get_major_formatter()(30_000, 0) == "30,000"
    assert one_over("ms") == "1 / ms"
    assert one_over("a b") == "1 / (a b)"


def test_the_rows_of_a_design_with_replications_are_analyzed_as_they_come() -> None:
    """In standard order or shuffled: what repeats is a repetition."""
    cells = {(-1, -1): [15, 18, 12], (1, -1): [45, 48, 51], (-1, 1): [25, 28, 19], (1, 1): [75, 75, 81]}
    table = factorial.analyze(factorial.design(2), list(cells.values()))
    for seed in (None, 7):
        rows = factorial.design(2, replications=3, seed=seed)
        left = {cell: list(values) for cell, values in cells.items()}
        responses = [left[tuple(row)].pop(0) for row in rows.tolist()]
        ours = factorial.analyze(rows, responses)
        assert ours.effects == table.effects
        assert ours.standard_error == table.standard_error
    with pytest.raises(BadArgument, match="was run 1 times and another cell 2"):
        factorial.analyze([[-1], [1], [1]], [1, 2, 3])


def test_an_interval_may_reach_beyond_the_largest_number() -> None:
    """On logarithms, with two repetitions and little wish to be wrong."""
    wide = factorial.analyze(factorial.design(1), [[1e-3, 1e3], [1, 1e6]], transform="log", confidence=1 - 1e-7)
    assert wide.predict([1]).high == math.inf
    assert wide.predict([1]).low == 0
