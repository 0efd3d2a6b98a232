"""Tests statistics against scipy, statsmodels and printed figures, and the coverage of intervals."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as sp
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

from posthaste_lab import stats
from posthaste_lab.checks import FloatArray
from posthaste_lab.errors import BadArgument
from posthaste_lab.report.sections.over_time import _independent

figures = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40)
RUNS = [101.2, 98.7, 103.4]


def ar1(phi: float, n: int, seed: int) -> FloatArray:
    """A series whose neighbors correlate by phi, with mean 0."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=n)
    series = np.empty(n)
    series[0] = noise[0] / math.sqrt(1 - phi**2)
    for i in range(1, n):
        series[i] = phi * series[i - 1] + noise[i]
    return series


@given(figures, st.floats(0.5, 0.999))
def test_the_interval_of_a_mean_is_statsmodels_own(samples: list[float], confidence: float) -> None:
    """Student's."""
    ours = stats.mean_interval(samples, confidence)
    low, high = DescrStatsW(samples).tconfint_mean(alpha=1 - confidence)
    assert (ours.low, ours.high) == pytest.approx((low, high), rel=1e-9, abs=1e-6)
    assert tuple(ours) == (ours.low, ours.high)


def test_three_runs_have_t_of_4_3() -> None:
    """The interval of three runs is 4.30 standard errors wide, not 1.96."""
    ours = stats.mean_interval(RUNS)
    assert ours.half_width == pytest.approx(4.3027 * np.std(RUNS, ddof=1) / math.sqrt(3), rel=1e-4)
    assert ours.n == 3


def test_one_run_has_no_interval() -> None:
    """And an empty or infinite sample neither."""
    for samples in ([5.0], [], [1.0, math.inf]):
        with pytest.raises(BadArgument, match="samples"):
            stats.mean_interval(samples)
    with pytest.raises(BadArgument, match="confidence"):
        stats.mean_interval(RUNS, confidence=95)


@given(st.integers(1, 5000), st.data())
def test_the_interval_of_a_proportion_is_wilson_s(n: int, data: st.DataObject) -> None:
    """As statsmodels has it."""
    successes = data.draw(st.integers(0, n))
    low, high = stats.proportion_interval(successes, n)
    assert (low, high) == pytest.approx(proportion_confint(successes, n, method="wilson"), abs=1e-12)


def test_no_error_in_50_000_is_not_certainty() -> None:
    """The usual formula answers 0 +- 0; Wilson's upper end is 0.0077 %."""
    ours = stats.proportion_interval(0, 50_000)
    assert ours.proportion == 0
    assert ours.high == pytest.approx(7.7e-5, rel=0.01)
    with pytest.raises(BadArgument, match="successes"):
        stats.proportion_interval(3, 2)


def test_a_percentile_lies_between_order_statistics() -> None:
    """For the median of 20 samples: ranks 6 and 15, from tables of the binomial distribution."""
    ours = stats.percentile_interval(range(1, 21), 50)
    assert (ours.value, ours.low, ours.high) == (10.5, 6, 15)
    assert ours.enough
    assert ours.note == ""


@pytest.mark.parametrize(("q", "needed"), [(99, 368), (99.9, 3688), (50, 6), (1 / 100, 368)])
def test_a_far_percentile_says_what_it_needs(q: float, needed: int) -> None:
    """Below the binomial minimum one end is open, and the note says so; at it, both ends are there."""
    few, enough = stats.percentile_interval(range(needed - 1), q), stats.percentile_interval(range(needed), q)
    assert not few.enough
    assert few.needed == needed
    assert f"not enough samples: {needed - 1} of the {needed}" in few.note
    assert math.isinf(few.high) or math.isinf(few.low)
    assert enough.enough
    assert math.isfinite(enough.low)
    assert math.isfinite(enough.high)


@pytest.mark.parametrize(("confidence", "enough"), [(0.5, 3), (0.75, 4)])
def test_what_is_needed_is_more_than_what_is_not_enough(confidence: float, enough: int) -> None:
    """Of a median, where the binomial distribution leaves exactly what may be left outside."""
    few = stats.percentile_interval(range(enough - 1), 50, confidence)
    assert not few.enough
    assert few.needed == enough
    assert stats.percentile_interval(range(enough), 50, confidence).enough


def test_a_percentile_of_few_samples_lies_in_its_own_interval() -> None:
    """Interpolated it would be 2.998, below the largest sample, where the interval begins; and the same at the foot."""
    far = stats.percentile_interval([1, 2, 3], 99.9)
    assert (far.value, far.low, far.high) == (3, 3, math.inf)
    near = stats.percentile_interval([1, 2, 3], 0.001)
    assert (near.value, near.low, near.high) == (1, -math.inf, 1)


def test_a_hundred_requests_know_nothing_above_their_p99() -> None:
    """The upper end is open, instead of the maximum."""
    assert stats.percentile_interval(range(100), 99).high == math.inf


def test_intervals_of_percentiles_cover() -> None:
    """At least 95 in 100 hold the true percentile, on a long tail."""
    rng = np.random.default_rng(3)
    truth = sp.lognorm(1).ppf(0.9)
    covered = 0
    for _ in range(400):
        low, high = stats.percentile_interval(rng.lognormal(size=150), 90)
        covered += low <= truth <= high
    assert covered >= 0.93 * 400


@given(figures, st.data())
def test_a_paired_comparison_is_student_s(a: list[float], data: st.DataObject) -> None:
    """The interval of the mean difference."""
    b = data.draw(st.lists(st.floats(-1e6, 1e6), min_size=len(a), max_size=len(a)))
    differences = np.array(a) - np.array(b)
    ours = stats.compare_paired(a, b)
    low, high = DescrStatsW(differences).tconfint_mean()
    if np.std(differences) > 1e-6 * np.max(np.abs(differences), initial=1.0):
        assert (ours.low, ours.high) == pytest.approx((low, high), rel=1e-6, abs=1e-6)


@given(figures, figures)
def test_an_unpaired_comparison_is_welch_s(a: list[float], b: list[float]) -> None:
    """As statsmodels has it for unequal variances."""
    ours = stats.compare_means(a, b)
    if min(np.std(a), np.std(b)) > 1e-3:
        means = CompareMeans(DescrStatsW(a), DescrStatsW(b))
        assert (ours.low, ours.high) == pytest.approx(means.tconfint_diff(usevar="unequal"), rel=1e-6, abs=1e-6)
        assert ours.significant == (ours.p_value < 0.05) or abs(ours.p_value - 0.05) < 1e-9


def test_a_comparison_says_how_much() -> None:
    """With the sign of a - b, relative to b."""
    ours = stats.compare_means([110, 112, 111], [100, 101, 99])
    assert ours.difference == pytest.approx(11)
    assert ours.relative == pytest.approx(0.11)
    assert ours.significant
    assert not stats.compare_paired([1, 2, 3], [1, 2, 3]).significant
    with pytest.raises(BadArgument, match="b ="):
        stats.compare_paired([1, 2], [1, 2, 3])


def test_an_effect_is_measured_in_deviations() -> None:
    """Hedges' g as Borenstein et al. (2009) have it in their example: d of 0.5970, times 0.9921."""
    a, b = (center + spread * np.array([-1, 1] * 25) * np.sqrt(49 / 50) for center, spread in ((103, 5.5), (100, 4.5)))
    assert stats.compare_means(a, b).effect_size == pytest.approx(0.5970 * 0.9923, abs=2e-4)
    assert stats.compare_means(b, a).effect_size == -stats.compare_means(a, b).effect_size
    assert np.isnan(stats.compare_means([1, 1], [2, 2]).effect_size)


def test_the_bootstrap_covers_where_samples_are_skewed() -> None:
    """Its interval is scipy's, of few samples there is none, and of pairs it is that of their differences."""
    random = np.random.default_rng(2)
    covered = 0
    for _ in range(60):
        a, b = random.exponential(size=(2, 25))
        drawn = stats.compare_means(a, b).bootstrap
        assert drawn is not None
        covered += drawn.holds(0.0)
    assert 52 <= covered <= 60
    pairs = stats.compare_paired(a + b + 1, a + b + random.normal(size=25) / 9)
    assert pairs.bootstrap is not None
    assert pairs.bootstrap.low > 0.9
    assert pairs.bootstrap == stats.compare_paired(a + b + 1, a + b + 1 - (pairs._samples[0])).bootstrap
    assert stats.compare_means(a[:7], b).bootstrap is None
    assert stats.compare_means([1.0] * 9, [2.0] * 9).bootstrap is None


def test_sample_size_of_jain() -> None:
    """Section 13.9.1: a mean of 20 s, a deviation of 5 s, within 5 %: 97 runs."""
    assert stats.sample_size(20, 5, 0.05) == 97
    assert stats.sample_size(20, 5, 0.05, student=True) == 99
    assert stats.sample_size(100, 1, 0.01) == 4
    assert stats.sample_size(100, 1, 0.01, student=True) == 7
    with pytest.raises(BadArgument, match="relative_error"):
        stats.sample_size(20, 5, 0)
    for hopeless in [(1, 1, 1e-200), (1e-300, 1, 0.05), (1e-300, 1e50, 1e-50)]:
        with pytest.raises(ValueError, match="relative_error"):
            stats.sample_size(*hopeless)


def test_batches_repair_the_interval_of_a_correlated_series() -> None:
    """Neighbors that correlate by 0.9 make the naive interval 4.4 times too narrow; batches cover, it does not."""
    covered = naive = 0
    for seed in range(200):
        series = ar1(0.9, 8000, seed)
        batched = stats.batch_means(series)
        covered += batched.low <= 0 <= batched.high
        low, high = stats.mean_interval(series)
        naive += low <= 0 <= high
    assert covered >= 0.9 * 200
    assert naive < 0.6 * 200
    assert batched.effective_n == pytest.approx(8000 / 19, rel=0.4)
    assert not batched.correlated


def test_independent_samples_need_no_batches() -> None:
    """Then the interval is the plain one."""
    series = np.random.default_rng(1).normal(size=500)
    assert tuple(stats.batch_means(series)) == pytest.approx(tuple(stats.mean_interval(series)))


def test_a_run_too_short_for_its_memory_says_so() -> None:
    """A trend is never forgotten."""
    steep = stats.batch_means(np.arange(400.0))
    assert (steep.settled, steep.correlated) == (False, True)
    assert stats.batch_means(np.arange(100.0), batches=10).batch_size == 10
    with pytest.raises(BadArgument, match="batches"):
        stats.batch_means([1, 2, 3, 4], batches=5)


def test_a_correlation_that_may_be_chance_is_no_sign_of_independence() -> None:
    """Of 20 windows one of 0.37 may be; if it is none, the interval is 1.5 times too narrow."""
    found: dict[str, stats.BatchMeans] = {}
    for seed in range(400):
        means = stats.batch_means(ar1(0.4, 20, seed))
        found.setdefault(_independent(means), means)
    assert found.keys() == {"yes", "not known: too few windows", "no: the trial is too short"}
    assert found["yes"].lag1 <= 0.1 < found["not known: too few windows"].lag1 < 1.645 / 20**0.5
    assert found["no: the trial is too short"].lag1 > 1.645 / 20**0.5


def test_mser_finds_the_warm_up() -> None:
    """A start twice as high for 300 samples is cut there, give or take; a level series is left alone."""
    rng = np.random.default_rng(5)
    level = rng.normal(10, 1, 3000)
    started = level.copy()
    started[:300] += 10 * np.exp(-np.arange(300) / 100)
    cut = stats.mser5(started)
    assert 200 <= cut <= 500
    assert not cut.too_short
    assert len(started[cut:]) == 3000 - cut
    assert stats.mser5(level) <= 300


@pytest.mark.parametrize(
    ("series", "cut"),
    [
        ([10.0] * 30 + [1.7] * 270, 30),
        ([1.0] * 50 + [2.0] * 450, 50),
        ([*range(50, 0, -1), *[0] * 200], 50),
        ([0.0] * 5 + [500.0] * 115, 5),
        ([7.3] * 200, 0),
    ],
)
def test_mser_cuts_where_a_level_begins_that_never_changes(series: list[float], cut: int) -> None:
    """Rounding chooses between no cuts where nothing varies."""
    found = stats.mser5(series)
    assert (found, found.too_short) == (cut, False)


def test_mser_says_when_a_run_never_settles() -> None:
    """The best cut at the limit of half the run is no answer."""
    cut = stats.mser5(np.exp(-np.arange(500) / 1000))
    assert cut.too_short
    assert "measure longer" in cut.note


@pytest.mark.parametrize("size", [24, 60, 99])
def test_mser_does_not_judge_what_is_too_short_to_tell(size: int) -> None:
    """Of a few windows that vary by chance alone, the last cut is often the best one."""
    rng = np.random.default_rng(7)
    cuts = [stats.mser5(rng.normal(1000, 20, size)) for _ in range(200)]
    assert not any(cut.too_short or cut.enough for cut in cuts)
    assert cuts[0].note == f"too few samples to tell: {size} of the 100 that MSER-5 takes"
    assert sum(stats.mser5(rng.normal(1000, 20, 100)).too_short for _ in range(1000)) <= 50


def test_mser_tells_what_its_cut_is_worth() -> None:
    """The interval of what is left, beside the one that another cut leaves."""
    series = np.random.default_rng(3).normal(10, 1, 200)
    series[:40] += 5
    cut = stats.mser5(series)
    assert cut == 40

    def half_width(after: int) -> float:
        means = series[after:].reshape(-1, 5).mean(axis=1)
        return float(np.std(means) / np.sqrt(len(means)))

    assert cut.narrower_than(20) == pytest.approx(1 - half_width(40) / half_width(20))
    assert cut.narrower_than(16) == cut.narrower_than(20)
    assert cut.narrower_than(40) == 0.0
    assert cut.narrower_than(101) == 0.0


def test_mser_minimizes_what_it_says() -> None:
    """Against the definition, spelled out."""
    series = np.random.default_rng(9).gamma(2, size=237) + np.linspace(3, 0, 237)
    means = [float(np.mean(series[i : i + 5])) for i in range(0, 235, 5)]
    scores = [float(np.var(means[d:])) * len(means[d:]) / len(means[d:]) ** 2 for d in range(len(means) // 2 + 1)]
    assert stats.mser5(series) == 5 * int(np.argmin(scores))


def test_trimming_by_shares_and_by_seconds() -> None:
    """12 % and 5 % of rows, or 2 s and 2 s of the clock; tables, series and lists alike."""
    frame = pl.DataFrame({"elapsed_s": [i / 10 for i in range(100)], "x": range(100)})
    assert stats.trim(frame)["x"].to_list() == list(range(12, 95))
    assert stats.trim(frame["x"]).to_list() == list(range(12, 95))
    assert stats.trim(list(range(100))) == list(range(12, 95))
    assert len(stats.trim(np.arange(100.0), 0, 0)) == 100
    with pytest.raises(BadArgument, match="leave nothing of 3 rows"):
        stats.trim([1, 2, 3], 0.6, 0.6)
    of_pandas = pd.DataFrame(frame.to_dict(as_series=False), index=range(7, 107))
    assert stats.trim(of_pandas)["x"].to_list() == list(range(12, 95))
    assert stats.trim(of_pandas["x"]).to_list() == list(range(12, 95))
    assert stats.trim(of_pandas, head_s=2, tail_s=2)["x"].to_list() == list(range(20, 80))
    assert stats.trim(frame, head_s=2, tail_s=2)["x"].to_list() == list(range(20, 80))
    with pytest.raises(BadArgument, match="leave nothing"):
        stats.trim(frame, 0.6, 0.5)
    with pytest.raises(BadArgument, match="time"):
        stats.trim(frame, head_s=1, time="clock")
    for without in (frame.clear(), frame.with_columns(elapsed_s=None), frame.with_columns(elapsed_s=pl.lit("soon"))):
        with pytest.raises(BadArgument, match="time = 'elapsed_s': names no seconds"):
            stats.trim(without, head_s=1)
        with pytest.raises(BadArgument, match="head"):
            stats.trim(without.clear())


@given(st.lists(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=10), min_size=1, max_size=6))
def test_merged_runs_are_all_samples_together(runs: list[list[float]]) -> None:
    """The law of total variance, to rounding."""
    merged = stats.merge_runs(
        [float(np.mean(run)) for run in runs], [float(np.std(run, ddof=1)) for run in runs], [len(run) for run in runs]
    )
    together = np.concatenate(runs)
    assert merged.mean == pytest.approx(together.mean(), abs=1e-9)
    assert merged.stdev == pytest.approx(together.std(ddof=1), rel=1e-9, abs=1e-9)
    assert merged.count == len(together)


def test_the_root_of_the_mean_variance_hides_what_differs_between_runs() -> None:
    """Two steady runs at different levels: within almost nothing, between all of it."""
    merged = stats.merge_runs([100, 110], [0.1, 0.1], [1000, 1000])
    assert merged.within_stdev == pytest.approx(0.1)
    assert merged.between_stdev == pytest.approx(7.07, abs=0.01)
    assert merged.stdev == pytest.approx(5, rel=1e-3)
    with pytest.raises(BadArgument, match="counts"):
        stats.merge_runs([1, 2], [1, 1], [5])


def test_scalability_comes_back_from_its_own_curve() -> None:
    """Exact points give their coefficients back, however small, and the peak."""
    n = np.array([1, 2, 4, 8, 16, 32, 48, 64])
    for lam, sigma, kappa in ((995.6, 0.0267, 0.000769), (5e4, 0.3, 1e-5), (12.0, 0.0, 0.002)):
        fit = stats.usl_fit(n, lam * n / (1 + sigma * (n - 1) + kappa * n * (n - 1)))
        assert (fit.lam, fit.sigma, fit.kappa) == pytest.approx((lam, sigma, kappa), rel=1e-4, abs=1e-7)
        assert fit.peak == pytest.approx(math.sqrt((1 - sigma) / kappa), rel=1e-3)
        assert fit.predict([64, 100])[1] == fit.predict(100)
        assert fit.predict(100) == pytest.approx(lam * 100 / (1 + sigma * 99 + kappa * 9900), rel=1e-3)


def test_intervals_of_scalability_cover_and_reach_zero_where_nothing_is_lost() -> None:
    """With noise of 2 %, nine in ten intervals of lambda hold it; a straight line's kappa is not significant."""
    rng = np.random.default_rng(11)
    n = np.array([1, 2, 4, 8, 12, 16, 24, 32, 48, 64], dtype=float)
    curve = 1000 * n / (1 + 0.05 * (n - 1) + 1e-3 * n * (n - 1))
    held = sum(
        stats.usl_fit(n, curve * (1 + 0.02 * rng.normal(size=len(n)))).intervals["lam"].holds(1000) for _ in range(60)
    )
    assert held >= 50
    straight = stats.usl_fit(n, 100 * n * (1 + 0.01 * rng.normal(size=len(n))))
    assert straight.intervals["kappa"].low == 0
    with pytest.raises(BadArgument, match="n ="):
        stats.usl_fit([1, 2, 3], [1, 2, 3])


def test_intervals_of_scalability_cover_where_noise_grows_with_the_throughput() -> None:
    """As it mostly does: those that take it for the same everywhere hold kappa in 80 of a hundred."""
    rng = np.random.default_rng(5)
    n = np.array([1, 2, 4, 8, 16, 32], dtype=float)
    curve = 1000 * n / (1 + 0.05 * (n - 1) + 1e-3 * n * (n - 1))
    fits = [stats.usl_fit(n, curve * (1 + 0.03 * rng.normal(size=len(n)))) for _ in range(100)]
    for name, value in (("lam", 1000), ("sigma", 0.05), ("kappa", 1e-3)):
        assert sum(fit.intervals[name].holds(value) for fit in fits) >= 92, name
    assert 1 < float(np.median([fit.intervals["lam"].high / 1000 for fit in fits])) < 1.3


def test_scalability_against_statsmodels() -> None:
    """Where sigma and kappa are linear (N/X is a parabola), weighted least squares agree to some percent."""
    rng = np.random.default_rng(2)
    n = np.repeat([1.0, 2, 4, 8, 16, 32], 4)
    x = 500 * n / (1 + 0.04 * (n - 1) + 5e-4 * n * (n - 1)) * (1 + 0.01 * rng.normal(size=len(n)))
    design = np.column_stack([np.ones_like(n), n - 1, n * (n - 1)])
    linear = sm.WLS(n / x, design, weights=(x**2 / n) ** 2).fit().params
    fit = stats.usl_fit(n, x)
    assert fit.lam == pytest.approx(1 / linear[0], rel=0.01)
    assert fit.sigma == pytest.approx(linear[1] / linear[0], rel=0.1)
    assert fit.kappa == pytest.approx(linear[2] / linear[0], rel=0.1)


@pytest.mark.parametrize("unit", [1e-9, 1e-6, 1e9])
def test_scalability_does_not_depend_on_the_unit_of_throughput(unit: float) -> None:
    """In requests per nanosecond the search had ended where it began."""
    n = np.array([1, 2, 4, 8, 16, 32])
    throughput = n / (1 + 0.03 * (n - 1) + 0.0005 * n * (n - 1)) * [1.01, 0.99, 1.02, 0.98, 1.01, 0.99]
    one, other = stats.usl_fit(n, throughput), stats.usl_fit(n, throughput * unit)
    assert other.lam == pytest.approx(one.lam * unit, rel=1e-6)
    assert (other.sigma, other.kappa, other.peak) == pytest.approx((one.sigma, one.kappa, one.peak), rel=1e-5)


def test_what_only_falls_has_its_highest_throughput_at_1() -> None:
    """More hinder each other by more than they do: no agreement of pairs is needed for that."""
    n = [1, 2, 4, 8, 16]
    fit = stats.usl_fit(n, [100 * each / (1 + 1.5 * (each - 1)) for each in n])
    assert fit.sigma == pytest.approx(1.5, rel=1e-6)
    assert fit.kappa < 1e-9
    assert fit.peak == 1.0
    assert fit.peak_throughput == pytest.approx(100, rel=1e-6)


def test_what_never_bends_has_no_highest_throughput() -> None:
    """A contention that rounding left of none is none."""
    assert stats.usl_fit([1, 2, 4, 8, 16], [10, 20, 40, 80, 160]).peak_throughput == math.inf


def test_points_that_no_curve_comes_near_are_refused_by_name() -> None:
    """A search that does not end is no error of the program."""
    n = [0.014, 0.04, 5170.534, 18077.585, 26323.237, 30287.259]
    rates = [
        33.37151958492713,
        0.00022957440206518417,
        0.0008354347663618812,
        0.8473621557079939,
        1.8477377657596885,
        0.560276213333418,
    ]
    with pytest.raises(BadArgument, match="throughput"):
        stats.usl_fit(n, rates)
